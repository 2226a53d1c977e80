"""The goodput that a link can carry at most, and what a receiver does as more and more is offered to it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Version = Literal[4, 6]

PREAMBLE, HEADER, CHECK, GAP = 8, 14, 4, 12
"""Bytes of a frame on the wire beside its content. Source: IEEE 802.3, clauses 3 and 4."""

LEAST_CONTENT = 46

IP: dict[Version, int] = {4: 20, 6: 40}
TCP, TIMESTAMPS, UDP = 20, 12, 8
"""Bytes. Source: RFC 9293, RFC 7323 (10 bytes, filled up to 12), RFC 768."""


def tcp(link_bps: float, mtu: int = 1500, *, ip: Version = 4) -> float:
    """Payload in b/s of segments that fill the MTU, one way, acknowledgements for nothing.

    Gigabit Ethernet: 1448 of 1538 bytes are payload, 941.48 Mb/s.

    Raises:
        ValueError: the headers leave no room.
    """
    payload = mtu - IP[ip] - TCP - TIMESTAMPS
    return link_bps * _payload(payload, mtu) / on_wire(mtu)


def udp(link_bps: float, message: int, mtu: int = 1500, *, ip: Version = 4) -> float:
    """Payload in b/s of datagrams of this many bytes, each in one packet.

    Raises:
        ValueError: a datagram does not fit into a packet, or is empty.
    """
    packet = message + UDP + IP[ip]
    if packet > mtu:
        raise ValueError(
            f"a message of {message} bytes makes a packet of {packet}, the MTU is {mtu}"
        )
    return link_bps * _payload(message, mtu) / on_wire(packet)


def on_wire(packet: int) -> int:
    """Bytes of time that an IP packet takes on the wire, the gap after it included."""
    return PREAMBLE + HEADER + max(packet, LEAST_CONTENT) + CHECK + GAP


def _payload(payload: int, mtu: int) -> int:
    if payload <= 0:
        raise ValueError(f"an MTU of {mtu} leaves no room for {payload} bytes of payload")
    return payload


CurveKind = Literal["keeps up", "levels off", "livelock", "undecided"]


FOLLOWS = 0.95
"""Goodput of at least this share of what the slope so far predicts still follows: 5 % lost is the
first loss that a reader would see in a picture."""

LEVEL = 0.80
"""Beyond its peak, goodput of at least this share of it is level. Less is a collapse, for what was
thrown away had been worked on: Mogul & Ramakrishnan show systems that lose all of it."""

LEAST = 4
"""Rates from which a shape can be recognised."""


@dataclass(frozen=True)
class Offered:
    """One offered rate, in any unit, and the goodput at it with its interval."""

    rate: float
    goodput: float
    low: float | None
    high: float | None


@dataclass(frozen=True)
class Shape:
    """What became of the goodput: its peak, the last rate, and what to call it."""

    kind: CurveKind
    peak: Offered
    last: Offered


def shape(points: Sequence[Offered]) -> Shape:
    """Names the shape of goodput over offered rate.

    - `keeps up`: at the highest rate goodput is what the lowest rate's share predicts, as far as
      `FOLLOWS`; no knee was reached.
    - `levels off`: it is less than that, and at least `LEVEL` of the peak.
    - `livelock`: at the highest rate, goodput is below `LEVEL` of the peak.
    - `undecided`: an interval lies on both sides of what decides.

    The lowest rate is taken for one at which nothing is lost. The last rate decides between level and
    livelock, not a dip on the way: livelock is what more load does not end.

    Source: Mogul & Ramakrishnan (1997), "Eliminating receive livelock in an interrupt-driven kernel",
    ACM TOCS 15(3), 217-252, whose figures have these shapes; the thresholds are ours.

    Raises:
        ValueError: fewer than `LEAST` rates, one twice, or one that is not above 0.
    """
    ordered = sorted(points, key=lambda point: point.rate)
    rates = {point.rate for point in ordered}
    if len(ordered) < LEAST or len(rates) < len(ordered) or ordered[0].rate <= 0:
        raise ValueError(f"a shape needs {LEAST} different rates above 0")
    peak, last = max(ordered, key=lambda point: point.goodput), ordered[-1]
    straight = ordered[0].goodput / ordered[0].rate * last.rate
    return Shape(_kind(straight, peak, last), peak, last)


def unknown_shape(points: Sequence[Offered]) -> Shape:
    """Of rates that are too few for a shape."""
    peak, last = max(points, key=lambda one: one.goodput), max(points, key=lambda one: one.rate)
    return Shape("undecided", peak, last)


def _kind(straight: float, peak: Offered, last: Offered) -> CurveKind:
    follows = _above(last, FOLLOWS * straight)
    if follows is None:
        return "undecided"
    if follows:
        return "keeps up"
    level = True if last is peak else _above(last, LEVEL * peak.goodput)
    if level is None:
        return "undecided"
    return "levels off" if level else "livelock"


def _above(point: Offered, bound: float) -> bool | None:
    """Whether goodput is at least this; none where the interval does not say."""
    low = point.goodput if point.low is None else point.low
    high = point.goodput if point.high is None else point.high
    if low >= bound:
        return True
    return False if high < bound else None
