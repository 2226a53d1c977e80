"""Rates of a stream: the received bytes, over the time in which they were sent or received. Pure.

The receiver knows the time from the first arrival to the last. Where a stream stands still or loses
datagrams, that alone flatters: who starves takes a little when there is time again, and this over the
short time in which it came is much a second. So what came is set against the sender's time too, and
the lower of the two rates is the stream's. Then no stream receives more a second than it was sent, a
silence counts as nothing, and with no datagram on its way goodput is what was sent less what was lost.

Both times leave out what is omitted. A sender's lasts as long as the study says, whatever came; with
TCP the receiver's is in most cases the longer one, for what is in buffers takes time after the end.
"""

from __future__ import annotations

from hypertare.protocol.phase import Phase, sum_of_known


def goodput(phase: Phase) -> float | None:
    """Returns the goodput of all streams together, in b/s of payload; None if nothing came."""
    return sum_of_known(of_stream(phase, task) for task in phase.tasks("receive"))


def packet_rate(phase: Phase) -> float | None:
    """Returns the datagrams/s of all streams together; None if nothing came."""
    return sum_of_known(_packet_rate(phase, task) for task in phase.tasks("receive"))


def of_stream(phase: Phase, receiver: str) -> float | None:
    """Goodput in b/s of the stream that the task `receiver` counts."""
    bytes_ = phase.value(receiver, "received_bytes")
    rates = [phase.value(receiver, "goodput_bps")]
    sent_s = phase.value(_sender(phase, receiver), "elapsed_s")
    if bytes_ and sent_s:
        rates.append(8 * bytes_ / sent_s)
    return min((rate for rate in rates if rate is not None), default=None)


def first_bytes(phase: Phase, receiver: str) -> float:
    """Returns the bytes of the first arrival. A receiver's goodput leaves them out: n arrivals have n - 1
    gaps.
    """
    bytes_, rate, elapsed_s = (
        phase.value(receiver, name) for name in ("received_bytes", "goodput_bps", "elapsed_s")
    )
    if bytes_ is None or rate is None or elapsed_s is None:
        return 0.0
    return max(0.0, bytes_ - rate * elapsed_s / 8)


def _packet_rate(phase: Phase, receiver: str) -> float | None:
    packets = phase.value(receiver, "received_packets")
    times = (phase.value(task, "elapsed_s") for task in (receiver, _sender(phase, receiver)))
    longest = max((time for time in times if time), default=None)
    return None if packets is None or longest is None else packets / longest


def _sender(phase: Phase, receiver: str) -> str | None:
    """The other end of the stream that the task `receiver` counts."""
    return phase.partner(receiver, "send")
