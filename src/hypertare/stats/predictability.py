"""Laws of how something changes with the number of guests, and whether they predict it.

A law is fitted in logs, so that 10 % off counts the same at 1 guest and at 8.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from hypertare.stats.interval import around

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


Trials = Mapping[int, Sequence[float]]
"""By number of guests the values of its trials."""

Verdict = Literal["predictable", "not predictable", "undecided"]


@dataclass(frozen=True)
class Prediction:
    """Of one number of guests that the fit has not seen.

    `error` is predicted / measured - 1, with its interval; no ends where the spread
    of a side is not known, both at the error itself where everything is exact. `predicted` and
    `measured` (geometric mean) are in the unit of the values.
    """

    guests: int
    predicted: float
    measured: float
    error: float
    low: float | None
    high: float | None


def predict(
    law: Law,
    trials: Trials,
    held_out: Iterable[int],
    confidence: float = 0.95,
    *,
    exact: bool = False,
) -> list[Prediction]:
    """Fits the law to the numbers of guests that are not held out, and compares it with those that are.

    The error's variance, in logs, is that of the measured mean plus that of the prediction; the
    latter by the jackknife over the trials that were fitted, number by number. Their degrees of freedom
    are joined as Welch and Satterthwaite do.

    With `exact`, values without any spread are taken for exact, as in virtual time they are, where each
    number has two at least: of one nobody knows what another would be.

    Sources: Efron & Stein (1981), Annals of Statistics 9, 586-596 (jackknife); Satterthwaite (1946),
    Biometrics Bulletin 2, 110-114.

    Raises:
        ValueError: a number held out has no trials, too few are left for the law, or a value is not
            above 0.
    """
    unseen = sorted(set(held_out))
    missing = [n for n in unseen if not trials.get(n)]
    if missing:
        raise ValueError(f"no trials with {missing[0]} guests")
    logs = {n: np.log(_positive(values)) for n, values in trials.items() if values}
    fitted = {n: values for n, values in logs.items() if n not in unseen}
    found = [_compare(law, fitted, n, logs[n], confidence) for n in unseen]
    return [_exact(one, fitted, logs) if exact else one for one in found]


def judge(predictions: Sequence[Prediction], most: float) -> Verdict:
    """ "predictable" where every error lies within ±`most` with its whole interval, "not predictable"
    where one lies outside with its whole interval. An error without an interval decides nothing.

    Raises:
        ValueError: there are no predictions.
    """
    if not predictions:
        raise ValueError("nothing was predicted")
    ends = [(p.low, p.high) for p in predictions if p.low is not None and p.high is not None]
    if any(low > most or high < -most for low, high in ends):
        return "not predictable"
    if len(ends) < len(predictions):
        return "undecided"
    return "predictable" if all(-most < low and high < most for low, high in ends) else "undecided"


def _compare(
    law: Law, fitted: Mapping[int, np.ndarray], n: int, seen: np.ndarray, confidence: float
) -> Prediction:
    predicted = _predict(law, fitted, n)
    parts = [_of_mean(seen), *_jackknife(law, fitted, n)]
    difference = predicted - float(seen.mean())
    variance = sum(part for part, _ in parts)
    low = high = None
    known = all(freedom > 0 for _, freedom in parts)
    if known and variance > 0:
        freedom = variance**2 / sum(part**2 / freedom for part, freedom in parts if part > 0)
        interval = around(difference, math.sqrt(variance), freedom, len(seen), confidence)
        assert interval.low is not None and interval.high is not None
        low, high = math.expm1(interval.low), math.expm1(interval.high)
    measured = math.exp(float(seen.mean()))
    return Prediction(n, math.exp(predicted), measured, math.expm1(difference), low, high)


def _exact(
    found: Prediction, fitted: Mapping[int, np.ndarray], logs: Mapping[int, np.ndarray]
) -> Prediction:
    sides = [logs[found.guests], *fitted.values()]
    known = all(len(values) > 1 and values.min() == values.max() for values in sides)
    return replace(found, low=found.error, high=found.error) if known else found


def _predict(law: Law, fitted: Mapping[int, np.ndarray], n: int) -> float:
    predict = law.fit({number: math.exp(float(values.mean())) for number, values in fitted.items()})
    return math.log(predict(n))


def _of_mean(values: np.ndarray) -> tuple[float, float]:
    """Variance of a mean, and its degrees of freedom."""
    if len(values) < 2:
        return 0.0, 0.0
    return float(values.var(ddof=1)) / len(values), len(values) - 1.0


def _jackknife(law: Law, fitted: Mapping[int, np.ndarray], n: int) -> list[tuple[float, float]]:
    """What each fitted number's trials add to the prediction's variance, and their degrees of freedom."""
    parts = []
    for number, values in fitted.items():
        count = len(values)
        if count < 2:
            parts.append((0.0, 0.0))
            continue
        without = [_predict(law, {**fitted, number: np.delete(values, i)}, n) for i in range(count)]
        parts.append(((count - 1) / count * float(np.var(without) * count), count - 1.0))
    return parts


def _positive(values: Sequence[float]) -> np.ndarray:
    array = np.asarray(values, dtype=np.float64)
    if not (np.isfinite(array).all() and (array > 0).all()):
        raise ValueError("a value is not above 0; a law of factors cannot hold it")
    return array
