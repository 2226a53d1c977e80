from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hypertare.findings.predictability import SUBJECTS
from hypertare.stats.predictability import (
    DRIVER_CPU,
    FAIR_RATE,
    LOADED_RATE,
    UNIVERSAL_SCALABILITY,
    Law,
    Prediction,
    judge,
    predict,
)

POSITIVE = st.floats(1e-3, 1e9)


def noisy(truth: dict[int, float], spread: float, trials: int, seed: int) -> dict[int, list[float]]:
    chance = np.random.default_rng(seed)
    return {
        n: list(value * np.exp(spread * chance.standard_normal(trials)))
        for n, value in truth.items()
    }


@given(POSITIVE)
def test_laws_of_one_constant_by_hand(constant: float) -> None:
    assert FAIR_RATE.fit({1: constant})(8) == pytest.approx(constant / 8)
    assert FAIR_RATE.fit({1: constant, 2: constant / 2})(4) == pytest.approx(constant / 4)
    assert DRIVER_CPU.fit({1: constant})(8) == pytest.approx(4 * constant)
    assert LOADED_RATE.fit({1: constant})(8) == pytest.approx(constant)


@given(POSITIVE, st.floats(0, 0.5), st.floats(0, 0.1))
def test_the_universal_law_finds_itself(first: float, contention: float, coherency: float) -> None:
    def truth(n: int) -> float:
        return first * n / (1 + contention * (n - 1) + coherency * n * (n - 1))

    fitted = UNIVERSAL_SCALABILITY.fit({n: truth(n) for n in (1, 2, 4)})
    assert fitted(8) == pytest.approx(truth(8), rel=1e-6)


@pytest.mark.parametrize(
    "law", dict.fromkeys(one.law for one in SUBJECTS), ids=lambda law: law.name
)
def test_what_follows_the_law_is_predictable(law: Law) -> None:
    shape = law.fit({1: 900.0, 2: 500.0, 4: 260.0})
    trials = noisy({n: shape(n) for n in (1, 2, 4, 8)}, 0.01, 8, seed=3)
    (found,) = predict(law, trials, [8])
    assert found.guests == 8
    assert found.low is not None and found.high is not None
    assert found.low < found.error < found.high
    assert judge([found], 0.10) == "predictable"


def test_what_does_not_is_not() -> None:
    # Each gets what it got alone: no fair rate.
    trials = noisy(dict.fromkeys((1, 2, 4), 900.0), 0.01, 5, seed=1)
    (found,) = predict(FAIR_RATE, trials, [4])
    # Fitted to 1 and 2: 900 √2 / 4 for 4.
    assert found.predicted == pytest.approx(900 * np.sqrt(2) / 4, rel=0.03)
    assert judge([found], 0.10) == "not predictable"


@settings(max_examples=5)
@given(st.integers(0, 10))
def test_the_interval_holds_the_error_as_often_as_it_says(seed: int) -> None:
    """200 experiments; 95 % of intervals hold the true error, 0: a binomial's 1 in 10^5 is 85 %."""
    held = 0
    for experiment in range(200):
        trials = noisy({n: 900 / n for n in (1, 2, 4)}, 0.1, 5, seed=1000 * seed + experiment)
        (found,) = predict(FAIR_RATE, trials, [4])
        assert found.low is not None and found.high is not None
        held += found.low <= 0 <= found.high
    assert held >= 170


def test_exact_values_have_an_error_and_no_interval() -> None:
    trials = {n: [900.0 / n] * 3 for n in (1, 2, 4)}
    (found,) = predict(FAIR_RATE, trials, [4])
    assert found.error == pytest.approx(0, abs=1e-12)
    assert found.low is None
    assert judge([found], 0.1) == "undecided"
    (sure,) = predict(FAIR_RATE, trials, [4], exact=True)
    assert sure.low == sure.high == sure.error
    assert judge([sure], 0.1) == "predictable"
    (varying,) = predict(FAIR_RATE, {**trials, 2: [450.0, 451.0, 449.0]}, [4], exact=True)
    assert varying.low is not None and varying.low < varying.error


def test_the_worst_prediction_decides() -> None:
    good = Prediction(4, 1, 1, 0.0, -0.01, 0.01)
    bad = Prediction(8, 2, 1, 1.0, 0.9, 1.1)
    wide = Prediction(8, 1, 1, 0.0, -0.5, 0.5)
    assert judge([good], 0.05) == "predictable"
    assert judge([good, bad], 0.05) == "not predictable"
    assert judge([good, wide], 0.05) == "undecided"
    with pytest.raises(ValueError):
        judge([], 0.05)


def test_what_cannot_be_fitted_is_refused() -> None:
    with pytest.raises(ValueError, match="no trials with 8"):
        predict(FAIR_RATE, {1: [1.0]}, [8])
    with pytest.raises(ValueError, match="needs 3"):
        predict(UNIVERSAL_SCALABILITY, {1: [1.0], 2: [2.0], 4: [3.0]}, [4])
    with pytest.raises(ValueError, match="not above 0"):
        predict(FAIR_RATE, {1: [1.0], 2: [0.0]}, [2])
