"""Laws of how something changes with the number of guests, and their fits.

A law is fitted in logs, so that 10 % off counts the same at 1 guest and at 8.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

Points = Mapping[int, float]
Fitted = Callable[[int], float]


@dataclass(frozen=True)
class Law:
    """`fit` makes a prediction for any number of guests from values at some; it needs `least` of them."""

    name: str
    formula: str
    least: int
    fit: Callable[[Points], Fitted]


def _scaled(shape: Callable[[int], float]) -> Callable[[Points], Fitted]:
    """A law with one constant, which is the geometric mean of value / shape."""

    def fit(points: Points) -> Fitted:
        logs = [np.log(value / shape(n)) for n, value in _checked(points, 1).items()]
        constant = float(np.exp(np.mean(logs)))
        return lambda n: constant * shape(n)

    return fit


def _universal_scalability(points: Points) -> Fitted:
    """X(n) = λ n / (1 + σ (n - 1) + κ n (n - 1)), none of the three below 0.

    n / X(n) is linear in 1/λ, σ/λ and κ/λ: least squares without negative coefficients, each row
    divided by its left side so that residuals are relative.
    """
    # Slow to load, and no other law needs it.
    from scipy import optimize

    numbers = np.array(sorted(_checked(points, 3)), dtype=np.float64)
    wanted = numbers / np.array([points[int(n)] for n in numbers])
    rows = np.column_stack([np.ones_like(numbers), numbers - 1, numbers * (numbers - 1)])
    found, _ = optimize.nnls(rows / wanted[:, None], np.ones_like(wanted))
    first, contention, coherency = (float(c) for c in found)

    def predict(n: int) -> float:
        below = first + contention * (n - 1) + coherency * n * (n - 1)
        if not below > 0:
            raise ValueError(f"these values leave the aggregate of {n} guests open")
        return n / below

    return predict


FAIR_RATE = Law("fair rate", "R / N", 1, _scaled(lambda n: 1 / n))
"""Each of N guests gets the N-th part. Source: Anhalt & Vicat-Blanc Primet (2008), INRIA RR-6658."""

DRIVER_CPU = Law(
    "driver domain CPU", "(log2 N + 1) N w", 1, _scaled(lambda n: float(np.log2(n)) + 1)
)
"""CPU of the driver domain over N w, what N guests of CPU w each take while they transmit. The study
has no constant before it (it is 1); here it is fitted. Source: the same.
"""

LOADED_RATE = Law("loaded rate", "C_loaded / C_alone R_alone", 1, _scaled(lambda n: 1.0))
"""Rate of a guest over the CPU share of the driver domain and of the guest together: the same beside loaded
neighbours as alone. Source: the same, section 3.2.3. Over its own measurements it errs by up to 32 %
(transmitting, 8 domains).
"""

LOADED_RATE_ALONE = Law(
    "loaded rate, guest alone", "C_loaded / C_alone R_alone", 1, _scaled(lambda n: 1.0)
)
"""The same over the CPU share of the guest by itself. Ours: nobody has published it as a law."""

UNIVERSAL_SCALABILITY = Law(
    "universal scalability law",
    "λ N / (1 + σ (N - 1) + κ N (N - 1))",
    3,
    _universal_scalability,
)
"""An aggregate that contention and coherency bend. Source: Gunther (1993), "A simple capacity model
of massively parallel transaction systems", CMG Conference; Gunther (2007), Guerrilla Capacity Planning.
"""


def _checked(points: Points, least: int) -> Points:
    if len(points) < least:
        raise ValueError(f"{len(points)} numbers of guests; the law needs {least}")
    if not all(n >= 1 and np.isfinite(value) and value > 0 for n, value in points.items()):
        raise ValueError("a number of guests below 1, or a value that is not above 0")
    return points
