"""Drift, outliers, verdicts, many comparisons."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from hypertare.stats.anomalies import outliers, trend
from hypertare.stats.interval import around, at, p_value
from hypertare.stats.practical import Verdict, discoveries, holm, levels, rule, unanimous


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
def test_no_trend_to_show(values: list[float]) -> None:
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
        (0.08, -0.02, 0.18, "no difference shown"),
        (0.38, -0.02, 0.78, "undecided"),
        (-0.01, -0.3, 0.2, "undecided"),
        (0.008, 0.007, 0.009, "no difference shown"),
        (0.03, 0.005, 0.055, "costs"),
        (0.03, None, None, "undecided"),
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


@given(st.floats(-1, 1), st.floats(0, 1), st.floats(0, 0.3), st.floats(0, 0.3))
def test_a_verdict_never_contradicts_its_interval(
    cost: float, half: float, threshold: float, floor: float
) -> None:
    low, high = cost - half, cost + half
    ruling = rule(cost, low, high, threshold=threshold, floor=floor)
    if ruling.verdict == "costs":
        assert low > 0
    elif ruling.verdict == "gains":
        assert high < 0
    elif ruling.reason in ("size", "floor"):
        assert abs(cost) <= max(threshold, floor)
    else:
        assert low <= 0 <= high
        assert (ruling.verdict == "undecided") == (max(-low, high) > max(0.25, threshold))


def test_sign_test() -> None:
    assert not unanimous(5) and unanimous(6)
    assert not unanimous(6, 0.99) and unanimous(8, 0.99)


def test_holm_by_hand() -> None:
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([]) == []


def test_discoveries_by_hand() -> None:
    """The example of Benjamini & Hochberg (1995), section 4: four of fifteen at 5 %."""
    fifteen = [0.0001, 0.0004, 0.0019, 0.0095, 0.0201, 0.0278, 0.0298, 0.0344]
    fifteen += [0.0459, 0.3240, 0.4262, 0.5719, 0.6528, 0.7590, 1.0]
    assert discoveries(fifteen) == 4
    # What is above its own step counts where a later one is below its.
    assert discoveries([0.03, 0.04, 0.045]) == 3
    assert discoveries([0.06]) == discoveries([]) == 0


def test_a_family_pays_for_itself_alone() -> None:
    tested = [("asked", 0.03), *[("beside", 0.06)] * 3, ("beside", None), ("beside", 0.001)]
    # One of four was found: 1 - 0.05 / 4.
    assert levels(tested) == pytest.approx([0.95, *[0.9875] * 3, 0.95, 0.9875])
    assert levels([("none found", 0.5)] * 10) == pytest.approx([0.995] * 10)
    assert levels([("all found", 0.0001)] * 10) == pytest.approx([0.95] * 10)
    assert levels([]) == []


@given(st.lists(st.tuples(st.floats(-5, 5), st.integers(1, 30)), min_size=1, max_size=20))
def test_an_interval_excludes_nothing_exactly_where_it_was_found(
    found: list[tuple[float, int]],
) -> None:
    """Estimates in standard errors, with their degrees of freedom."""
    made = [around(estimate, 1.0, freedom, freedom + 1) for estimate, freedom in found]
    ps = [p_value(one) for one in made]
    count = discoveries(ps)
    selected = sorted(range(len(ps)), key=ps.__getitem__)[:count]
    for place, level in enumerate(levels([("", p) for p in ps])):
        shown = at(made[place], level)
        assert shown.low is not None and shown.high is not None
        if abs(ps[place] - (1 - level)) > 1e-9:
            assert (not shown.low <= 0 <= shown.high) == (place in selected)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=20))
def test_holm_lies_between_none_and_bonferroni(p_values: list[float]) -> None:
    adjusted = holm(p_values)
    count = len(p_values)
    for p, corrected in zip(p_values, adjusted, strict=True):
        assert p <= corrected <= 1.0
    assert min(adjusted) == pytest.approx(min(1.0, count * min(p_values)))
    order = np.argsort(p_values, kind="stable")
    assert all(np.diff(np.array(adjusted)[order]) >= 0)
