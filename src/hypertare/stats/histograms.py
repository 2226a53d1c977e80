"""Quantiles and distributions of histograms, and how near one is to the baseline's. Pure.

A difference of medians says nothing of those that are slow. What one feels is how many are as quick as they
would be without virtualisation, and by how much the others are slower, each for its place in the order: the
shift function.

Sources: Doksum (1974), The Annals of Statistics 2, 267-277 (the shift function); Rousselet, Pernet & Wilcox
(2017), European Journal of Neuroscience 46, 1738-1748 (deciles of it as a picture of two groups). Rodrigues
& Sadok report of capture programs in guests that they were "near the baseline 78 % of the time", and not
what is near. They give means and standard deviations, so `near_time` is the share of time within that
spread of the baseline's. Where the baseline has a few slow ones among others that hardly differ, that
says little of most of them; `near_share` is by its 95 % quantile.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from hypertare.base.errors import HypertareError
from hypertare.protocol.records import Histogram


def quantiles(histogram: Histogram, shares: Sequence[float]) -> list[float]:
    """The least recorded values that these shares (0 to 1) of all do not exceed, in its unit.

    The inverse of the empirical distribution, type 1 of Hyndman & Fan (1996), The American
    Statistician 50, 361-365. A bucket stands for its highest equivalent value, so a quantile is too
    high by at most the bucket's width, never too low.

    Raises:
        HypertareError: the histogram is empty or has a negative count.
        ValueError: a share outside 0 to 1.
    """
    if any(not 0 <= share <= 1 for share in shares):
        raise ValueError("a share lies between 0 and 1")
    values, counts = _sorted(histogram)
    seen = counts.cumsum()
    # As exact as the count: a share of 0.9 of ten is the ninth, though 0.9 * 10 may round above 9.
    ranks = np.ceil(np.round(np.asarray(shares, dtype=np.float64) * seen[-1], 9))
    places = np.searchsorted(seen, np.maximum(ranks, 1))
    return [float(value) for value in values[places]]


def ecdf(histogram: Histogram) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Values, ascending, in the histogram's unit, and the share that does not exceed each.

    Raises:
        HypertareError: as `quantiles`.
    """
    values, counts = _sorted(histogram)
    seen = counts.cumsum()
    return values, seen / seen[-1]


def merge(histograms: Sequence[Histogram]) -> Histogram:
    """One histogram that counts what all of them count.

    Raises:
        HypertareError: there is none, or their units differ.
    """
    units = {histogram.unit for histogram in histograms}
    if len(units) != 1:
        what = f"histograms in {', '.join(sorted(units))}" if units else "no histogram"
        raise HypertareError(f"Cannot merge {what}.", "Merge histograms of the same unit.")
    counts: Counter[int] = Counter()
    for histogram in histograms:
        for value, count in histogram.buckets:
            counts[value] += count
    return Histogram(unit=units.pop(), buckets=tuple(sorted(counts.items())))


def _sorted(histogram: Histogram) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    buckets = sorted(bucket for bucket in histogram.buckets if bucket[1])
    if any(count < 0 for _, count in buckets):
        raise HypertareError(
            "A histogram has a negative count.", "Its record is damaged: leave that trial out."
        )
    if not buckets:
        raise HypertareError("A histogram is empty.", "Nothing was measured in that trial.")
    return (
        np.array([value for value, _ in buckets], dtype=np.float64),
        # A count may fill 64 bits, which a sum of such would overflow as integers.
        np.array([count for _, count in buckets], dtype=np.float64),
    )


NEAR = 0.95
"""Share of the baseline's that is near it by definition: what is slower is slow there, too."""

SHIFTED = (0.1, 0.25, 0.5, 0.75, 0.9, 0.99)
"""Where the shift function is evaluated."""


def near_share(baseline: Histogram, other: Histogram) -> float:
    """Share of `other` that does not exceed the baseline's 95 % quantile: of one that is the baseline's
    0.95 or, where some are equal, more.

    Raises:
        HypertareError: a histogram is empty or has a negative count.
        ValueError: their units differ.
    """
    _check(baseline, other)
    (limit,) = quantiles(baseline, (NEAR,))
    total = sum(count for _, count in other.buckets)
    quantiles(other, ())
    return sum(count for value, count in other.buckets if value <= limit) / total


def near_time(baseline: Histogram, other: Histogram) -> float:
    """Of the time that all of `other` took, one after the other, the share in those that do not exceed the
    baseline's mean by more than its standard deviation. What is quicker is near as well.

    Raises:
        HypertareError, ValueError: as `near_share`'s.
    """
    _check(baseline, other)
    quantiles(baseline, ())
    quantiles(other, ())
    limit = near_limit(baseline)
    near = sum(value * count for value, count in other.buckets if value <= limit)
    total = sum(value * count for value, count in other.buckets)
    # Round trips that took no time are as near as any.
    return near / total if total else 1.0


def near_limit(baseline: Histogram) -> float:
    """The baseline's mean and a standard deviation more."""
    count = sum(count for _, count in baseline.buckets)
    mean = sum(value * count for value, count in baseline.buckets) / count
    squares = sum((value - mean) ** 2 * count for value, count in baseline.buckets)
    return mean + math.sqrt(squares / count)


def shift(
    baseline: Histogram, other: Histogram, shares: Sequence[float] = SHIFTED
) -> tuple[float, ...]:
    """By how much each of these quantiles of `other` is above the baseline's, in their unit.

    Raises:
        HypertareError, ValueError: as `near_share`'s; or a share outside 0 to 1.
    """
    _check(baseline, other)
    sides = quantiles(baseline, shares), quantiles(other, shares)
    return tuple(theirs - its for its, theirs in zip(*sides, strict=True))


def _check(baseline: Histogram, other: Histogram) -> None:
    if baseline.unit != other.unit:
        raise ValueError(f"{other.unit} cannot be compared with {baseline.unit}")
