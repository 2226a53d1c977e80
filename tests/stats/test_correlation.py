from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from hypertare.stats.over_cells import correlation

VALUES = st.lists(st.tuples(st.floats(-1e6, 1e6), st.floats(-1e6, 1e6)), min_size=4, max_size=30)


def found(x, y) -> tuple[float, float, float]:
    one = correlation(x, y)
    assert not isinstance(one, str), one
    return one


def test_by_hand() -> None:
    # Deviations (-2, -1, 0, 1, 2) and (-2, 0, -1, 1, 2) of means 3 and 3: 4 + 0 + 0 + 1 + 4 = 9 of 10.
    estimate, low, high = found([1, 2, 3, 4, 5], [1, 3, 2, 4, 5])
    assert estimate == pytest.approx(0.9)
    # atanh 0.9 = 1.47222; 1.959964 / sqrt 2 = 1.385904.
    assert low == pytest.approx(math.tanh(1.472219 - 1.385904), abs=1e-5)
    assert high == pytest.approx(math.tanh(1.472219 + 1.385904), abs=1e-5)


@given(VALUES)
def test_agrees_with_numpy(pairs) -> None:
    x, y = zip(*pairs, strict=True)
    assume(np.std(x) > 1e-3 and np.std(y) > 1e-3)
    estimate, low, high = found(x, y)
    assert estimate == pytest.approx(float(np.corrcoef(x, y)[0, 1]), abs=1e-6)
    assert -1 <= low <= high <= 1


@given(VALUES, st.floats(1e-3, 1e3), st.floats(-1e3, 1e3))
def test_unit_and_origin_do_not_matter_and_a_turned_sign_turns_it(pairs, factor, shift) -> None:
    x, y = zip(*pairs, strict=True)
    assume(np.std(x) > 1 and np.std(y) > 1)
    one, other = found(x, y)[0], found([factor * a + shift for a in x], [-b for b in y])[0]
    assert other == pytest.approx(-one, abs=1e-6)
    assert found(y, x)[0] == pytest.approx(one, abs=1e-9)


def test_what_goes_together_wholly() -> None:
    estimate, low, _ = found([1, 2, 3, 4], [10, 20, 30, 40])
    assert estimate == pytest.approx(1) and low > 0.99


def test_what_has_none_says_why() -> None:
    assert "needs 4" in str(correlation([1, 2, 3], [1, 2, 3]))
    assert "does not vary" in str(correlation([1, 1, 1, 1], [1, 2, 3, 4]))
    with pytest.raises(ValueError):
        correlation([1, 2], [1])
