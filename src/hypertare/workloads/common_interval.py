"""Goodput of streams that run at once, over the time in which all of them do. Pure.

Streams that are started together begin to count and end at moments of their own: an agent is slower
to start, a guest starves. Over its own time each looks better than it was: who begins late has the
line for longer with others gone. So all are measured over the **common interval**: from when the
last of them counts its first bytes to when the first of them has had its last. Who starves decides
when that is, so it is an upper bound beside what a stream got over its own time (`stream_rate.py`).

Nodes have clocks of their own. Each interval gives its ends on its task's clock and when the host
agent heard of it; what is heard late was delayed, so the least difference of the two is the best
that is known of how the clocks stand (Mills 1991, IEEE Trans. Communications 39, 1482-1493: the
clock filter). What remains is the least time that a record takes to its host agent.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from hypertare.protocol.records import Interval


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
