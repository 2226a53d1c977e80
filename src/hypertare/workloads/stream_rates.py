"""Rates of streams: of one over its own time, and of several over the time in which all of them ran. Pure.

The receiver knows the time from the first arrival to the last. Where a stream stands still or loses
datagrams, that alone flatters: who starves takes a little when there is time again, and this over the
short time in which it came is much a second. So what came is set against the sender's time too, and
the lower of the two rates is the stream's. Then no stream receives more a second than it was sent, a
silence counts as nothing, and with no datagram on its way goodput is what was sent less what was lost.

Both times leave out what is omitted. A sender's lasts as long as the study says, whatever came; with
TCP the receiver's is in most cases the longer one, for what is in buffers takes time after the end.

Streams that are started together begin to count and end at moments of their own: an agent is slower
to start, a guest starves. Over its own time each looks better than it was: who begins late has the
line for longer with others gone. So all are measured over the **common interval**: from when the
last of them counts its first bytes to when the first of them has had its last. Who starves decides
when that is, so it is an upper bound beside what a stream got over its own time.

Nodes have clocks of their own. Each interval gives its ends on its task's clock and when the host
agent heard of it; what is heard late was delayed, so the least difference of the two is the best
that is known of how the clocks stand (Mills 1991, IEEE Trans. Communications 39, 1482-1493: the
clock filter). What remains is the least time that a record takes to its host agent.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from hypertare.base.variables import Found, Response, Values
from hypertare.protocol.phase import Phase, sum_of_known
from hypertare.protocol.records import Interval
from hypertare.stats import fairness


@dataclass(frozen=True)
class Piece:
    """Bytes that came evenly from `begin_s` to `end_s`."""

    begin_s: float
    end_s: float
    bytes: float


Flow = tuple[Piece, ...]
"""A stream's pieces in the order of time, all on the host agent's clock."""


@dataclass(frozen=True)
class Common:
    """`rates` in b/s by stream over `seconds`; `share` is that time over the longest stream's own."""

    rates: dict[str, float]
    seconds_s: float
    share: float


def flow(intervals: Sequence[Interval], first_bytes: float = 0.0) -> Flow | None:
    """What a receiver reported of its stream; none where its clock cannot be set, or nothing came.

    Its time begins with the first arrival, so what came with that, `first_bytes`, did not come in it.
    """
    whole = [one for one in intervals if one.end_s > one.begin_s]
    delays = [one.heard_s - one.end_s for one in whole if one.heard_s is not None]
    if not delays:
        return None
    zero = min(delays)
    first, *rest = (
        Piece(zero + one.begin_s, zero + one.end_s, one.values.get("received_bytes", 0.0))
        for one in whole
    )
    return replace(first, bytes=max(0.0, first.bytes - first_bytes)), *rest


def common(flows: Mapping[str, Flow]) -> Common | None:
    """What each stream carried while all did; none where there was no such time."""
    if not flows:
        return None
    begin = max(pieces[0].begin_s for pieces in flows.values())
    end = min(pieces[-1].end_s for pieces in flows.values())
    if not end > begin:
        return None
    longest = max(pieces[-1].end_s - pieces[0].begin_s for pieces in flows.values())
    seconds = end - begin
    rates = {name: 8 * _within(pieces, begin, end) / seconds for name, pieces in flows.items()}
    return Common(rates, seconds, seconds / longest)


def _within(pieces: Flow, begin: float, end: float) -> float:
    """Bytes from begin to end; of a piece that reaches beyond, its part."""
    return sum(
        piece.bytes
        * max(0.0, min(end, piece.end_s) - max(begin, piece.begin_s))
        / (piece.end_s - piece.begin_s)
        for piece in pieces
    )


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


RESPONSES = (
    Response("fair_rate", "b/s", "higher", "goodput of a guest on average"),
    Response("least_rate", "b/s", "higher", "goodput of the guest that got least"),
    Response("most_rate", "b/s", "higher", "goodput of the guest that got most"),
    Response("jain_goodput", "index", "higher", "Jain's index of the guests' goodput"),
    Response("overlap", "share", "higher", "share of the longest stream's time in which all ran"),
)


def common_of(phase: Phase) -> Common | None:
    """Over the streams of all guests that do not only disturb."""
    intervals_of = {
        task: phase.intervals[task] for task in phase.tasks("receive") if task in phase.intervals
    }
    flows = {
        task: flow(intervals, first_bytes(phase, task)) for task, intervals in intervals_of.items()
    }
    known = {task: pieces for task, pieces in flows.items() if pieces}
    return common(known) if len(known) == len(flows) else None


def why_not(phase: Phase) -> str | None:
    """Why a trial has no goodput of guests at once, where that is why."""
    if not phase.guests or common_of(phase) is not None:
        return None
    return "its guests' streams never ran all at the same time; give them more time with 'duration'"


def with_common_rates(parts: dict[int, Values], phase: Phase) -> dict[int, Values]:
    """Returns the values of each guest, with the lower of its goodput and its rate in the common interval.

    Over its own time, a stream looks too good if it had the line to itself for a while. Over the common
    interval, a starving stream may look too good, because its bytes came then; its own rate contains its
    silence.
    """
    found = common_of(phase)
    made: dict[int, Values] = {}
    for guest, values in parts.items():
        mine = [
            min(rate, own)
            for task, rate in (found.rates if found else {}).items()
            if phase.guest_of(task) == guest
            if (own := of_stream(phase, task)) is not None
        ]
        made[guest] = {name: value for name, value in values.items() if name != "goodput"}
        if mine:
            made[guest]["goodput"] = sum(mine)
    return made


def measure(parts: dict[int, Values], phase: Phase) -> Found:
    """By response, where several guests' streams ran at the same time; `parts` are by guest."""
    found = common_of(phase)
    rates = [values["goodput"] for values in parts.values() if "goodput" in values]
    if found is None or len(rates) < 2 or len(rates) < len(parts):
        return {}
    return {
        "fair_rate": sum(rates) / len(rates),
        "least_rate": min(rates),
        "most_rate": max(rates),
        "jain_goodput": fairness.jain(rates),
        "overlap": found.share,
    }
