"""What is odd in a series of values: a drift, values far from the others, a new level."""

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


_FAR = 14.826
_LEAST_OF_OUTLIERS = 5


def outliers(values: Values) -> tuple[int, ...]:
    """Where the outliers stand, by the modified z-score 0.6745 (x - median) / MAD.

    The textbook's limit of 3.5 speaks up in 13 % of normal series of ten, and in nearly half of
    skewed ones; hyperfine's 14.826 (ten standard deviations, if it were normal) does in less than
    1 % from n = 7 on, and in 2 % of five. An advice that is mostly wrong is not read.

    Nothing is said of fewer than five values, nor where more than half are equal (the MAD is 0).

    Source: Iglewicz & Hoaglin (1993), How to Detect and Handle Outliers; the limit: hyperfine.
    """
    checked = finite(values)
    if len(checked) < _LEAST_OF_OUTLIERS:
        return ()
    away = np.abs(checked - np.median(checked))
    spread = float(np.median(away))
    if spread == 0:
        return ()
    return tuple(int(i) for i in np.flatnonzero(0.6745 * away / spread > _FAR))


LEAST_OF_LEVEL = 3
"""Values of each level: of fewer, a level and a stray value look alike."""

PERMUTATIONS = 999
"""So that the least p is 1 in 1,000."""


def change_points(values: Values, alpha: float = 0.05, seed: int = 1) -> list[int]:
    """Indices at which a new level begins, in order.

    The best split in two is looked for (binary segmentation, least squares), and counts where fewer than
    `alpha` of random orders of the same values have one as good: having looked for the best is in that.
    Then both parts are split in turn. Fewer than eight values or so have too few orders for any to count.

    Sources: binary segmentation: Scott & Knott (1974), Biometrics 30, 507-512; the permutation test of
    each split: Matteson & James (2014), JASA 109, 334-345. Libraries find such splits, but each of a
    thousand orders took them milliseconds; here it is one sum.
    """
    series = np.asarray(values, dtype=np.float64)
    return _splits(series, 0, alpha, np.random.default_rng(seed))


def _splits(
    series: NDArray[np.float64], offset: int, alpha: float, rng: np.random.Generator
) -> list[int]:
    if len(series) < 2 * LEAST_OF_LEVEL or np.ptp(series) == 0:
        return []
    gains = _gains(series[np.newaxis])[0]
    orders = rng.permuted(np.tile(series, (PERMUTATIONS, 1)), axis=1)
    # What is as good but for the last digits is as good.
    as_good = int((_gains(orders).max(axis=1) >= gains.max() * (1 - 1e-9)).sum())
    if (as_good + 1) / (PERMUTATIONS + 1) > alpha:
        return []
    at = LEAST_OF_LEVEL + int(gains.argmax())
    before = _splits(series[:at], offset, alpha, rng)
    return [*before, offset + at, *_splits(series[at:], offset + at, alpha, rng)]


def _gains(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """How much of each row's squares about the mean a split before the 4th, 5th, ... value takes away."""
    n = rows.shape[1]
    sums = np.cumsum(rows - rows.mean(axis=1, keepdims=True), axis=1)[
        :, LEAST_OF_LEVEL - 1 : n - LEAST_OF_LEVEL
    ]
    before = np.arange(LEAST_OF_LEVEL, n - LEAST_OF_LEVEL + 1)
    gains: NDArray[np.float64] = sums**2 * n / (before * (n - before))
    return gains
