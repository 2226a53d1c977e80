"""How much two settings differ: from rounds that hold both, else from two samples; and how much of what it
gets alone a guest gets beside others.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

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
        return _in_rounds(first, second, shared, confidence)
    return _as_samples(first, second, confidence)


def of_alone(alone: Side, beside: Side, confidence: float = 0.95) -> Interval | None:
    """log(rate beside others / rate alone), of means in log space; none without rates above 0.

    Where both sides stand in the same blocks what these share cancels: the mean of the differences, as
    of a cost (`hypertare.stats.ratio`). Else they are independent samples: Welch's interval, each side
    by boots where these differ.

    Source: the rate of a virtual machine beside loaded ones over that of one alone is what Anhalt &
    Vicat-Blanc Primet (2008), INRIA RR-6658, report of 2, 4 and 8; Welch (1947), Biometrika 34, 28-35.
    """
    rates = [{block: v for block, v in side.values.items() if v} for side in (alone, beside)]
    every = [rate for side in rates for some in side.values() for rate in some]
    if not all(rates) or not all(math.isfinite(rate) and rate > 0 for rate in every):
        return None
    first, second = (
        Side({block: np.log(some).tolist() for block, some in known.items()}, side.boots)
        for known, side in zip(rates, (alone, beside), strict=True)
    )
    if first.values.keys() == second.values.keys():
        return _in_rounds(first, second, sorted(first.values), confidence)
    return _as_samples(first, second, confidence)


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


def _in_rounds(first: Side, second: Side, shared: Sequence[Any], confidence: float) -> Interval:
    means = (
        [of_mean(side.values[number]).estimate for number in shared] for side in (first, second)
    )
    differences = [theirs - its for its, theirs in zip(*means, strict=True)]
    return boots.mean(differences, [second.boots[number] for number in shared], confidence).interval


def _as_samples(first: Side, second: Side, confidence: float) -> Interval:
    its, theirs = (
        boots.mean(
            [value for some in side.values.values() for value in some],
            [side.boots[number] for number, some in side.values.items() for _ in some],
            confidence,
        ).interval
        for side in (first, second)
    )
    return welch(its, theirs, confidence)
