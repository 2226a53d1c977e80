"""What a receiver does as more and more is offered to it: follow, level off, or collapse."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

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
