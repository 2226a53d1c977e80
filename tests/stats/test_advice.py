"""Drift, outliers, verdicts, many comparisons."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from hypertare.stats.comparisons import by_chance, holm
from hypertare.stats.drift import trend
from hypertare.stats.outliers import outliers
from hypertare.stats.practical import Verdict, rule, unanimous


def test_trend_by_hand() -> None:
    # Seven in order: p = 2 / 7!; slope 1 from 10 to 16 about the median 13.
    seen = trend([10.0, 11.0, 12.0, 13.0, 14.0, 15.0, 16.0])
    assert seen is not None
    assert seen.p == pytest.approx(2 / 5040)
    assert seen.change == pytest.approx(6 / 13)


@given(st.lists(st.one_of(st.integers(1, 9), st.floats(1, 1e6)), min_size=6, max_size=60))
def test_trend_is_what_scipy_finds(values: list[float]) -> None:
    seen = trend(values)
    if seen is None:
        assert len(set(values)) == 1
        return
    order = np.arange(len(values))
    slope = stats.theilslopes(values, order).slope
    assert seen.p == pytest.approx(stats.kendalltau(order, values).pvalue, rel=1e-9, abs=1e-12)
    assert seen.change == pytest.approx(
        slope * (len(values) - 1) / np.median(values), rel=1e-9, abs=1e-12
    )


def test_trend_bears_an_outlier() -> None:
    seen = trend([10.0, 11.0, 12.0, 500.0, 14.0, 15.0, 16.0, 17.0])
    assert seen is not None and 0.4 < seen.change < 0.6


def test_no_trend_in_noise() -> None:
    rng = np.random.default_rng(1)
    found = [trend(rng.standard_normal(12)) for _ in range(400)]
    assert sum(seen is not None and seen.p < 0.05 for seen in found) <= 0.07 * 400


def test_a_trend_of_ten_thousand() -> None:
    """Half a spread over the whole run, outliers on the way; and none where there is none."""
    rng = np.random.default_rng(3)
    noise = rng.standard_normal(10_001)
    noise[::97] += 50.0
    rising = trend(100 + noise + np.linspace(0.0, 0.5, len(noise)))
    assert rising is not None and rising.p < 1e-6
    assert rising.change == pytest.approx(0.005, rel=0.2)
    found = [trend(rng.standard_normal(1001)) for _ in range(60)]
    assert sum(seen is not None and seen.p < 0.05 for seen in found) <= 8


@pytest.mark.parametrize("values", [[1.0, 2.0, 3.0, 4.0, 5.0], [2.0] * 9])
def test_no_trend_to_tell(values: list[float]) -> None:
    assert trend(values) is None


def test_outliers() -> None:
    assert outliers([10.0, 10.1, 9.9, 10.2, 9.8, 30.0]) == (5,)
    assert outliers([10.0, 10.1, 9.9, 10.2, 30.0][:4]) == ()
    assert outliers([1.0, 1.0, 1.0, 1.0, 5.0]) == ()


def test_outliers_seldom_in_normal_values() -> None:
    rows = np.random.default_rng(2).standard_normal((2000, 8))
    assert sum(bool(outliers(row)) for row in rows) < 0.01 * 2000


def verdict(cost: float, low: float | None, high: float | None, **rules: Any) -> Verdict:
    return rule(cost, low, high, **rules).verdict


@pytest.mark.parametrize(
    ("cost", "low", "high", "said"),
    [
        (0.38, 0.34, 0.42, "costs"),
        (-0.10, -0.15, -0.05, "gains"),
        (0.38, -0.02, 0.78, "no difference shown"),
        (0.008, 0.007, 0.009, "no difference shown"),
        (0.03, 0.005, 0.055, "costs"),
        (0.03, None, None, "no difference shown"),
        (0.02, 0.0, 0.04, "no difference shown"),
    ],
)
def test_verdict(cost: float, low: float | None, high: float | None, said: str) -> None:
    assert verdict(cost, low, high, threshold=0.01) == said


def test_verdict_heeds_the_floor_and_what_is_sure() -> None:
    assert verdict(0.03, 0.02, 0.04, floor=0.05) == "no difference shown"
    assert verdict(0.03, None, None, sure=True) == "costs"
    assert verdict(0.0, None, None, sure=True, threshold=0.0) == "no difference shown"


@given(st.floats(-1, 1), st.floats(0, 1), st.floats(0, 0.5), st.floats(0, 0.5))
def test_higher_threshold_never_shows_more(
    cost: float, half: float, threshold: float, more: float
) -> None:
    strict = verdict(cost, cost - half, cost + half, threshold=threshold + more)
    loose = verdict(cost, cost - half, cost + half, threshold=threshold)
    assert strict in (loose, "no difference shown")


def test_sign_test() -> None:
    assert not unanimous(5) and unanimous(6)
    assert not unanimous(6, 0.99) and unanimous(8, 0.99)


def test_holm_by_hand() -> None:
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([]) == []


def test_a_family_is_corrected_for_itself_alone() -> None:
    tested = [("asked", 0.03), *[("beside", 0.03)] * 3, ("beside", None), ("beside", 0.001)]
    # 0.03 alone is none; 0.03 as one of four is: 0.001 * 4 is none, then 0.03 * 3 is.
    assert by_chance(tested) == [False, True, True, True, False, False]
    assert by_chance([]) == []


@given(st.lists(st.floats(0, 1), min_size=1, max_size=20))
def test_holm_lies_between_none_and_bonferroni(p_values: list[float]) -> None:
    adjusted = holm(p_values)
    count = len(p_values)
    for p, corrected in zip(p_values, adjusted, strict=True):
        assert p <= corrected <= 1.0
    assert min(adjusted) == pytest.approx(min(1.0, count * min(p_values)))
    order = np.argsort(p_values, kind="stable")
    assert all(np.diff(np.array(adjusted)[order]) >= 0)
