"""The least or the most of many cells: chosen by what it shows, and its interval knows that."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from hypertare.stats.distributions import t_quantile

Which = Literal["least", "most"]


@dataclass(frozen=True)
class Extreme:
    """`place` is the cell's. `low` and `high` are none where nothing varies at all."""

    place: int
    estimate: float
    low: float | None
    high: float | None


def extreme(values: NDArray[np.float64], which: Which, confidence: float = 0.95) -> Extreme:
    """The least or the most of the cells' true means, with an interval that holds it.

    Of many cells with the same mean one shows the least, which is below that mean. So every cell gets an
    interval with Bonferroni's correction for their number; where all of them hold, the least mean lies
    between the least of the lower ends and the least of the upper ones. More cells than the one that was
    chosen may be the true least: that is in it.

    With as few rounds as there are boots a cell alone knows little of its spread. Mean = cell + round +
    noise; the spread of a cell's mean is that of all cells, (MS of rounds / cells + MS of noise (cells - 1)
    / cells) / rounds, with Satterthwaite's degrees of freedom; a cell that spreads more keeps its own
    spread.

    Sources: Bonferroni's inequality, as in Miller (1981), Simultaneous Statistical Inference, 2nd
    edition; Satterthwaite (1946), Biometrics Bulletin 2, 110-114.

    Args:
        values: a row for each cell, a column for each round (or boot), all finite.

    Raises:
        ValueError: fewer than two rounds, or no cell.
    """
    cells, rounds = map(int, values.shape)
    if cells < 1 or rounds < 2:
        raise ValueError("no cell, or fewer than two rounds")
    means = values.mean(axis=1)
    place = int(means.argmin() if which == "least" else means.argmax())
    estimate = float(means[place])
    own = values.var(axis=1, ddof=1)
    if not own.any():
        return Extreme(place, estimate, None, None)
    variance, freedom = _spread(values, means)
    t = t_quantile(freedom, 1 - (1 - confidence) / 2 / cells)
    halves = t * np.sqrt(np.maximum(own, variance) / rounds)
    end = np.min if which == "least" else np.max
    return Extreme(place, estimate, float(end(means - halves)), float(end(means + halves)))


def _spread(values: NDArray[np.float64], means: NDArray[np.float64]) -> tuple[float, float]:
    """The variance of one round of a cell, and its degrees of freedom."""
    cells, rounds = values.shape
    of_rounds = values.mean(axis=0) - means.mean()
    noise = values - means[:, None] - of_rounds
    free = (rounds - 1, max(1, (cells - 1) * (rounds - 1)))
    parts = (
        float((of_rounds**2).sum()) / free[0],
        float((noise**2).sum()) / free[1] * (cells - 1) / cells,
    )
    whole = math.fsum(parts)
    lost = math.fsum(
        (part / whole) ** 2 / degrees for part, degrees in zip(parts, free, strict=True)
    )
    return whole, 1 / lost
