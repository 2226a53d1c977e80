"""Rates of a UDP stream: what came, over the time for which it was sent. Pure.

The receiver knows the time from the first datagram that came to the last. Where datagrams are lost,
that alone flatters: who starves takes a few when there is time again, and these over the short time
in which they came are many a second. So what came is set against the sender's time too, and the
lower of the two rates is the stream's. Then no stream receives more a second than it was sent, and
with none on its way goodput is what was sent less what was lost.
"""

from __future__ import annotations

from hypertare.phase import Phase, sum_of_known


def goodput(phase: Phase) -> float | None:
    """In b/s of payload, all streams together; none where nothing came."""
    return sum_of_known(_goodput(phase, task) for task in phase.tasks("receive"))


def packet_rate(phase: Phase) -> float | None:
    """In datagrams/s, all streams together; none where nothing came."""
    return sum_of_known(_packet_rate(phase, task) for task in phase.tasks("receive"))


def _goodput(phase: Phase, receiver: str) -> float | None:
    bytes_ = phase.value(receiver, "received_bytes")
    rates = [phase.value(receiver, "goodput_bps")]
    sent_s = phase.value(_sender(receiver), "elapsed_s")
    if bytes_ and sent_s:
        rates.append(8 * bytes_ / sent_s)
    return min((rate for rate in rates if rate is not None), default=None)


def _packet_rate(phase: Phase, receiver: str) -> float | None:
    packets = phase.value(receiver, "received_packets")
    times = (phase.value(task, "elapsed_s") for task in (receiver, _sender(receiver)))
    longest = max((time for time in times if time), default=None)
    return None if packets is None or longest is None else packets / longest


def _sender(receiver: str) -> str:
    """Both ends of a stream have one name, but for the role."""
    return receiver.replace("receive", "send", 1)
