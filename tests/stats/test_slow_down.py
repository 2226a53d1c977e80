"""What a guest gets beside others, of what it gets alone."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from hypertare.stats.ratio import Side, of_alone

RATES = st.lists(st.floats(1e3, 1e9), min_size=2, max_size=6)


def side(rates: list[float], first: int = 0, boots: int = 1) -> Side:
    """One trial a block."""
    blocks = range(first, first + len(rates))
    return Side(
        dict(zip(blocks, ([rate] for rate in rates), strict=True)),
        {block: block % boots for block in blocks},
    )


def test_by_hand() -> None:
    found = of_alone(side([8.0, 12.0]), side([2.0, 3.0], first=2))
    assert found is not None
    assert math.exp(found.estimate) == pytest.approx(0.25)
    theirs = stats.ttest_ind(np.log([2, 3]), np.log([8, 12]), equal_var=False)
    expected = theirs.confidence_interval(0.95)
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high))


def test_what_a_block_shares_cancels() -> None:
    alone, beside = [8.0, 16.0, 80.0], [2.0, 4.2, 19.0]
    paired = of_alone(side(alone), side(beside))
    apart = of_alone(side(alone), side(beside, first=3))
    assert paired is not None and apart is not None
    assert paired.estimate == pytest.approx(apart.estimate)
    assert paired.error < 0.1 * apart.error


def test_boots_that_differ_are_the_values() -> None:
    rates = [10.0, 20.0, 10.1, 20.1, 10.0, 20.0]
    alike = of_alone(side(rates), side(rates, first=6))
    booted = of_alone(side(rates, boots=2), side(rates, first=6, boots=2))
    assert alike is not None and booted is not None
    assert booted.freedom == pytest.approx(2) and booted.freedom < alike.freedom


@given(RATES, RATES, st.floats(1e-3, 1e3), st.booleans())
def test_neither_the_unit_nor_the_side_matters(
    alone: list[float], beside: list[float], unit: float, shared: bool
) -> None:
    first = 0 if shared else 100
    one = of_alone(side(alone), side(beside, first))
    scaled = of_alone(side([unit * r for r in alone]), side([unit * r for r in beside], first))
    turned = of_alone(side(beside), side(alone, first))
    assert one is not None and scaled is not None and turned is not None
    assert scaled.estimate == pytest.approx(one.estimate, abs=1e-6)
    assert turned.estimate == pytest.approx(-one.estimate, abs=1e-9)
    assert one.low is None or one.low <= one.estimate
    mean = float(np.mean(np.log(beside)) - np.mean(np.log(alone)))
    if not shared:
        assert one.estimate == pytest.approx(mean, abs=1e-6)


def test_what_has_no_logarithm_has_no_slow_down() -> None:
    assert of_alone(side([1.0, 0.0]), side([1.0], first=2)) is None
    assert of_alone(side([]), side([1.0], first=2)) is None
    assert of_alone(Side({0: []}, {}), side([1.0])) is None
    alone = of_alone(side([4.0]), side([1.0], first=1))
    assert alone is not None and alone.low is None
