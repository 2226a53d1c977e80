"""How much two settings differ: from rounds that hold both, else from two samples."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hypertare.stats import boots
from hypertare.stats.interval import Interval, around, of_mean, welch

_LEAST_ROUNDS = 2


@dataclass(frozen=True)
class Side:
    """Values by round, and the boot of each round. Values of one round were measured close together."""

    values: Mapping[Any, Sequence[float]]
    boots: Mapping[Any, Hashable]


def contrast(first: Side, second: Side, confidence: float = 0.95) -> Interval:
    """second - first.

    In rounds that hold both, what these share cancels: the mean of the differences, by boots where
    those differ (`hypertare.stats.boots`). Settings that need benches of their own share none: then
    they are independent samples, and the interval is Welch's.

    Raises:
        ValueError: a side without values, or one that is not finite.
    """
    shared = [
        number for number, values in first.values.items() if values and second.values.get(number)
    ]
    if len(shared) >= _LEAST_ROUNDS:
        differences = [_mean(second.values[r]) - _mean(first.values[r]) for r in shared]
        where = [second.boots[number] for number in shared]
        return boots.mean(differences, where, confidence).interval
    return welch(_alone(first, confidence), _alone(second, confidence), confidence)


def pooled(parts: Sequence[Interval], confidence: float = 0.95) -> Interval:
    """The mean of independent estimates, each with the same weight: of a factor's effect, over the
    settings of the others.

    Standard error √Σe² / k, degrees of freedom (Σe²)² / Σ(e⁴/f). `constant` where none has a spread.

    Source: Satterthwaite (1946), Biometrics Bulletin 2, 110-114.

    Raises:
        ValueError: none.
    """
    if not parts:
        raise ValueError("nothing to pool")
    if len(parts) == 1:
        return parts[0]
    estimate = sum(one.estimate for one in parts) / len(parts)
    n = min(one.n for one in parts)
    squares = [(one.error**2, one.freedom) for one in parts if one.freedom > 0]
    total = sum(square for square, _ in squares)
    if total == 0:
        every = all(one.constant for one in parts)
        return Interval(estimate, None, None, n, confidence, 0.0, 0.0, every)
    freedom = 1 / sum((square / total) ** 2 / free for square, free in squares)
    return around(estimate, math.sqrt(total) / len(parts), freedom, n, confidence)


def _mean(values: Sequence[float]) -> float:
    return of_mean(values).estimate


def _alone(one: Side, confidence: float) -> Interval:
    found = [
        (value, one.boots[number]) for number, values in one.values.items() for value in values
    ]
    return boots.mean(
        [value for value, _ in found], [boot for _, boot in found], confidence
    ).interval
