from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from hypertare.stats import boots, interval

VALUES = st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=30).filter(
    lambda values: np.ptp(values) > 1e-3
)


def test_by_hand() -> None:
    # Mean 3, s = √2.5, t(4) at 97.5 % = 2.776445: 3 ± 2.776445 x 1.581139 / 2.236068.
    seen = interval.of_mean([1.0, 2.0, 3.0, 4.0, 5.0])
    assert seen.estimate == 3.0
    assert seen.low == pytest.approx(3 - 1.963243, abs=1e-6)
    assert seen.high == pytest.approx(3 + 1.963243, abs=1e-6)
    assert (seen.n, seen.freedom) == (5, 4)


@given(VALUES, st.sampled_from([0.9, 0.95, 0.99]))
def test_agrees_with_scipy(values: list[float], confidence: float) -> None:
    seen = interval.of_mean(values, confidence)
    theirs = stats.ttest_1samp(values, 0.0)
    expected = theirs.confidence_interval(confidence)
    assert (seen.low, seen.high) == pytest.approx((expected.low, expected.high), rel=1e-9)
    assert interval.p_value(seen) == pytest.approx(theirs.pvalue, rel=1e-6, abs=1e-300)


@given(VALUES, st.randoms())
def test_order_does_not_matter(values: list[float], random: object) -> None:
    shuffled = list(values)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    one, other = interval.of_mean(values), interval.of_mean(shuffled)
    assert one.low == pytest.approx(other.low, rel=1e-9, abs=1e-6)


@given(VALUES)
def test_more_confidence_is_wider(values: list[float]) -> None:
    narrow, wide = interval.of_mean(values, 0.9), interval.of_mean(values, 0.99)
    assert wide.low < narrow.low < narrow.estimate < narrow.high < wide.high  # type: ignore[operator]


def test_no_spread_is_no_certainty() -> None:
    seen = interval.of_mean([7.0] * 9)
    assert seen.constant and seen.low is None and seen.high is None
    single = interval.of_mean([7.0])
    assert not single.constant and single.low is None
    assert interval.p_value(single) is None


@pytest.mark.parametrize("values", [[], [1.0, math.nan], [1.0, math.inf]])
def test_bad_values_are_refused(values: list[float]) -> None:
    with pytest.raises(ValueError):
        interval.of_mean(values)


def test_confidence_is_a_share() -> None:
    with pytest.raises(ValueError, match="between 0 and 1"):
        interval.of_mean([1.0, 2.0], 95)


# --- boots


def test_boots_by_hand() -> None:
    # Boot means 2, 12, 7; MSB = 3 x 25 = 75, MSW = 1: F = 75.
    seen = boots.mean([1, 2, 3, 11, 12, 13, 6, 7, 8], list("aaabbbccc"))
    assert seen.by_boot and seen.boots == 3
    assert seen.p == pytest.approx(stats.f.sf(75, 2, 6))
    assert seen.interval.estimate == pytest.approx(7)
    assert (seen.interval.n, seen.interval.freedom) == (9, 2)
    # s of the means is 5, t(2) at 97.5 % = 4.302653.
    assert seen.interval.high == pytest.approx(7 + 4.302653 * 5 / math.sqrt(3), abs=1e-5)


@given(VALUES.filter(lambda values: len(values) >= 6))
def test_boots_agree_with_scipy(values: list[float]) -> None:
    where = [index % 3 for index in range(len(values))]
    seen = boots.mean(values, where)
    groups = [values[0::3], values[1::3], values[2::3]]
    theirs = stats.f_oneway(*groups)
    # Where squares underflow, scipy has a statistic and no p-value.
    if seen.p is not None and math.isfinite(theirs.pvalue):
        assert seen.p == pytest.approx(theirs.pvalue, rel=1e-4, abs=1e-9)


def test_boots_alike_are_pooled() -> None:
    values = [1.0, 2.0, 3.0, 1.0, 2.0, 3.0]
    seen = boots.mean(values, [0, 0, 0, 1, 1, 1])
    assert not seen.by_boot and seen.p == 1.0
    assert seen.interval == interval.of_mean(values)


@pytest.mark.parametrize("where", [[0, 0, 0, 0], [0, 1, 2, 3]])
def test_boots_that_cannot_be_reported(where: list[int]) -> None:
    seen = boots.mean([1.0, 2.0, 4.0, 3.0], where)
    assert seen.p is None and not seen.by_boot
    assert seen.interval == interval.of_mean([1.0, 2.0, 4.0, 3.0])


def test_uneven_boots_count_alike() -> None:
    seen = boots.mean([10.0, 10.2, 10.1, 10.3, 10.1, 20.0, 20.1], [0] * 5 + [1] * 2)
    assert seen.by_boot
    assert seen.interval.estimate == pytest.approx((10.14 + 20.05) / 2)


def test_exact_boots_that_differ() -> None:
    seen = boots.mean([1.0, 1.0, 2.0, 2.0], [0, 0, 1, 1])
    assert seen.by_boot and seen.p == 0.0
    with pytest.raises(ValueError, match="2 values of 3 boots"):
        boots.mean([1.0, 2.0], [0, 1, 2])
