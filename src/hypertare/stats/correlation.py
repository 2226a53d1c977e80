"""How closely two quantities go together over several cells. Needs no library: claims are read often."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist

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
