"""How much two sides differ: a cost from trials of the same block, and two settings against each other."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from hypertare.stats import boots
from hypertare.stats.interval import Interval, around, of_mean, welch

_LARGEST = 709.0
"""The largest number whose exponential fits into a float."""

Better = Literal["higher", "lower"]
ByBlock = Mapping[int, Sequence[float]]


@dataclass(frozen=True)
class Pairs:
    """The system under test against the baseline, one figure a block.

    `logs` are log(sut / baseline), absent where a value of zero or below forbids a logarithm;
    `differences` are sut - baseline in the unit of the response.
    """

    blocks: tuple[int, ...]
    logs: NDArray[np.float64] | None
    differences: NDArray[np.float64]


def pair(baseline: ByBlock, sut: ByBlock) -> Pairs:
    """Pairs what stands in the same block; an empty block was planned and gave nothing.

    Several trials of one side in a block are averaged first: in log space for the ratio, so that it
    is a ratio of geometric means, and as they are for the difference.

    Why logs: a cost is a factor, its noise is multiplicative, and the log ratio is the only one for
    which it does not matter which side is called the baseline (Fleming & Wallace 1986, "How not to
    lie with statistics", CACM 29, 218-221). Why pairs: what a block shares, such as a busy
    neighbour or a warm machine, cancels (Fisher 1935, The Design of Experiments).

    Why a difference where a value is zero or below: a loss of 0 has no logarithm, and adding a
    small constant would let the constant decide the cost. Leaving those blocks out would keep only
    the blocks that lost. So that comparison has no cost; its difference is given in its place.

    A ratio's two sides have the same distribution when virtualisation does nothing. The log ratio
    is then symmetric around 0 however skewed the noise is, and the t interval
    (`hypertare.stats.interval`) keeps its coverage.
    """
    blocks = tuple(
        block
        for block in sorted(baseline.keys() & sut.keys())
        if len(baseline[block]) and len(sut[block])
    )
    (below, logs_below), (above, logs_above) = (
        _means([side[block] for block in blocks]) for side in (baseline, sut)
    )
    logs = None if logs_below is None or logs_above is None else logs_above - logs_below
    return Pairs(blocks, logs, above - below)


def _means(
    blocks: Sequence[Sequence[float]],
) -> tuple[NDArray[np.float64], NDArray[np.float64] | None]:
    """The mean of each block, and that of the logs where all values have one."""
    # All blocks at once: in a run of hundreds of cells this is most of a report's time.
    values = np.array(list(chain.from_iterable(blocks)), dtype=np.float64)
    sizes = np.array([len(block) for block in blocks], dtype=np.intp)
    where = np.repeat(np.arange(len(blocks)), sizes)
    logs = np.bincount(where, np.log(values)) / sizes if (values > 0).all() else None
    return np.bincount(where, values) / sizes, logs


def of_block(baseline: float, sut: float) -> tuple[float | None, float]:
    """What `pair` makes of a block with one value a side: its log, where it has one, and its difference."""
    if baseline > 0 and sut > 0:
        return float(np.log(sut) - np.log(baseline)), sut - baseline
    return None, sut - baseline


def cost(log_ratio: float, better: Better) -> float:
    """The share of the baseline that is lost: positive is a loss.

    1 - ratio where higher is better, ratio - 1 where lower is.
    """
    # With one degree of freedom an end may lie beyond all numbers.
    change = math.expm1(log_ratio) if log_ratio < _LARGEST else math.inf
    return change if better == "lower" else -change


def of_cost(cost: float, better: Better) -> float:
    """Platform over baseline, of what `cost` makes of it."""
    return 1 + cost if better == "lower" else 1 - cost


def cost_bounds(low: float, high: float, better: Better) -> tuple[float, float]:
    """The costs at the ends of an interval of log ratios, the lower one first."""
    ends = cost(low, better), cost(high, better)
    return min(ends), max(ends)


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
