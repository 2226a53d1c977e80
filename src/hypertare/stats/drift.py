"""Does a response drift over the run?"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hypertare.stats.interval import Values, constant, finite


@dataclass(frozen=True)
class Trend:
    """`p`: how likely so steady a rise or fall is where there is none. `change`: from the first to
    the last trial, as a share of the median (in the unit of the values where the median is 0).
    """

    p: float
    change: float


_LEAST_OF_TREND = 6
"""Fewer values cannot show a trend: five in order happen by chance in one run of sixty."""

_MOST_PAIRED = 1000

_MOST_EXACT = 33
"""Beyond this number of values the normal distribution is near enough."""


def trend(values: Values) -> Trend | None:
    """The trend of values in the order of the run; `None` for fewer than six or for constant ones.

    Whether: Kendall's rank test against the order (exact for small n without ties). How much: the
    Theil-Sen slope, the median of all pairwise slopes. Both bear outliers.

    `scipy.stats` has both, and the tests hold these against it; but loading it takes a second, which
    the user would wait for between the last trial and the verdict.

    Of more than `_MOST_PAIRED` values so many medians of neighbours are tested: all pairs of 10,000
    would take seconds and gigabytes, and say the same.

    Sources: Mann (1945), Econometrica 13, 245-259; Sen (1968), JASA 63, 1379-1389.
    """
    checked = finite(values)
    if len(checked) > _MOST_PAIRED:
        checked = np.array([np.median(part) for part in np.array_split(checked, _MOST_PAIRED)])
    if len(checked) < _LEAST_OF_TREND or constant(checked):
        return None
    earlier, later = np.triu_indices(len(checked), k=1)
    rises = checked[later] - checked[earlier]
    slope = float(np.median(rises / (later - earlier)))
    middle = float(np.median(checked))
    change = slope * (len(checked) - 1) / (abs(middle) if middle else 1.0)
    return Trend(_chance(checked, float(np.sign(rises).sum())), change)


def _chance(values: NDArray[np.float64], score: float) -> float:
    """How likely a score this far from nought is in values of no order: rises minus falls."""
    count = len(values)
    ties = np.unique(values, return_counts=True)[1].astype(float)
    if count <= _MOST_EXACT and ties.max() == 1:
        inversions = round((count * (count - 1) / 2 - abs(score)) / 2)
        # How likely 0, 1, 2, ... inversions are in a random order: the k-th value adds 0 to k - 1.
        shares = np.ones(1)
        for size in range(2, count + 1):
            shares = np.convolve(shares, np.full(size, 1 / size))
        return min(1.0, 2 * float(shares[: inversions + 1].sum()))
    variance = (_moment(np.array([float(count)])) - _moment(ties)) / 18
    return math.erfc(abs(score) / math.sqrt(2 * variance))


def _moment(sizes: NDArray[np.float64]) -> float:
    return float((sizes * (sizes - 1) * (2 * sizes + 5)).sum())
