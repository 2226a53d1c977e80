"""One figure over many cells: the least or the most of them, and how closely two quantities go together."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from hypertare.stats.interval import t_quantile

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


LEAST = 4
"""Pairs that an interval needs: its standard error is 1 / sqrt(n - 3)."""

_NOT_ONE = 1 - 1e-15
"""A correlation of one has no transform; the nearest that has one stands for it."""


def correlation(
    x: Sequence[float], y: Sequence[float], confidence: float = 0.95
) -> tuple[float, float, float] | str:
    """Pearson's coefficient with the ends of Fisher's interval: tanh(atanh r ± z / √(n - 3)).

    The interval is over cells: it says how well so many levels pin the coefficient down, as if they
    were drawn at random from all levels. The error of each cell's mean is not in it, which pulls a
    coefficient towards 0.

    Source: Fisher (1921), Metron 1, 3-32.

    Returns:
        Why there is none, in words.

    Raises:
        ValueError: the two differ in length.
    """
    n = len(x)
    if n != len(y):
        raise ValueError(f"{n} and {len(y)} values make no pairs")
    if n < LEAST:
        return f"a correlation over {n} cells has no interval; it needs {LEAST}"
    mean_x, mean_y = math.fsum(x) / n, math.fsum(y) / n
    from_x, from_y = [a - mean_x for a in x], [b - mean_y for b in y]
    size = math.hypot(*from_x) * math.hypot(*from_y)
    if size == 0:
        return "what does not vary correlates with nothing"
    # Divided before they are added, so that large values do not leave the range of a float.
    r = math.fsum(a / size * b for a, b in zip(from_x, from_y, strict=True))
    r = max(-1.0, min(1.0, r))
    middle = math.atanh(max(-_NOT_ONE, min(_NOT_ONE, r)))
    half = NormalDist().inv_cdf((1 + confidence) / 2) / math.sqrt(n - 3)
    return r, math.tanh(middle - half), math.tanh(middle + half)
