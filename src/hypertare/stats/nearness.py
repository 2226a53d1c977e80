"""How near a distribution is to the baseline's. Pure.

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
from collections.abc import Sequence

from hypertare.protocol.records import Histogram
from hypertare.stats.percentile import quantiles

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
