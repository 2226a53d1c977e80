"""Where the level of a series changes, and whether that is more than chance."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hypertare.stats.interval import Values

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
