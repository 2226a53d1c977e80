"""How a setting follows the level of a factor: laws of one scale, least squares on the log.

Laws are compared by leave-one-out: each level is predicted from the others. A law of one scale needs
two levels, and no law is preferred to a simpler one that predicts as well.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

GUEST_WEIGHT = 256
"""Xen's own default, of every domain."""


def driver_weight(guests: int, guest_weight: float = GUEST_WEIGHT) -> float:
    """(log2 N + 1) N w: by the law of its CPU time, what it needs beside N guests of weight w.

    Source: Anhalt & Vicat-Blanc Primet (2008), INRIA RR-6658, who found the law in CPU shares and left
    for later to set weights by it.

    Raises:
        ValueError: there are no guests, or their weight is not above 0.
    """
    if guests < 1 or not guest_weight > 0:
        raise ValueError(f"{guests} guests of weight {guest_weight}")
    return (math.log2(guests) + 1) * guests * guest_weight


Shape = Callable[[float], float]
"""What the scale of a law is multiplied by, at a level of the factor."""

_EQUAL = 1e-9
"""Errors that differ by less, in doublings, differ by rounding alone."""


@dataclass(frozen=True)
class Law:
    """`scale` * `shape`(level). Where `scale` is given nothing is fitted."""

    name: str
    formula: str
    shape: Shape
    scale: float | None = None


@dataclass(frozen=True)
class Fit:
    """A law with its scale. `residual` and `left_out` are root mean squares of log2(setting / law), in
    doublings: over the levels that it was fitted to, and over levels that were left out of the fit.
    """

    law: Law
    scale: float
    residual: float
    left_out: float

    def at(self, level: float) -> float:
        return self.scale * self.law.shape(level)


def laws(default: float, *, of_guests: bool) -> tuple[Law, ...]:
    """The laws that are tried, the simplest first.

    Args:
        default: the setting's default.
        of_guests: the factor is the number of guests, for which a law is published.
    """
    grows = (
        Law("by guests", "(log2 N + 1) N w", lambda guests: driver_weight(round(guests), 1.0))
        if of_guests
        else Law("in proportion", "w * level", lambda level: level)
    )
    return (
        Law("the default", "the default", lambda _: 1.0, default),
        Law("constant", "w", lambda _: 1.0),
        grows,
    )


def fit(law: Law, levels: Sequence[float], settings: Sequence[float]) -> Fit:
    """The law's scale, by least squares on the log.

    Raises:
        ValueError: fewer than two levels, or something that has no log.
    """
    if len(levels) < 2 or len(levels) != len(settings):
        raise ValueError(f"{len(levels)} levels with {len(settings)} settings")
    logs = [
        math.log2(setting / law.shape(level))
        for level, setting in zip(levels, settings, strict=True)
    ]
    scale = _mean(logs) if law.scale is None else math.log2(law.scale)
    others = [
        _mean([*logs[:place], *logs[place + 1 :]]) if law.scale is None else scale
        for place in range(len(logs))
    ]
    return Fit(
        law,
        2**scale,
        _root_mean_square([log - scale for log in logs]),
        _root_mean_square([log - other for log, other in zip(logs, others, strict=True)]),
    )


def preferred(fits: Sequence[Fit]) -> Fit:
    """The one that predicts left-out levels best; of several alike the first."""
    least = min(one.left_out for one in fits)
    return next(one for one in fits if one.left_out <= least + _EQUAL)


def _mean(found: Sequence[float]) -> float:
    return sum(found) / len(found)


def _root_mean_square(errors: Sequence[float]) -> float:
    return math.sqrt(_mean([error * error for error in errors]))
