from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hypertare.stats.anomalies import LEAST_OF_LEVEL, change_points


def test_a_step_is_found_where_it_is() -> None:
    quiet = 0.01 * np.random.default_rng(1).standard_normal(24)
    quiet[9:] += 0.1
    assert change_points(quiet) == [9]
    quiet[17:] -= 0.3
    assert change_points(quiet) == [9, 17]


@pytest.mark.parametrize("n", [8, 15, 40])
def test_noise_has_a_change_as_rarely_as_said(n: int) -> None:
    rng = np.random.default_rng(n)
    seen = sum(bool(change_points(rng.standard_normal(n))) for _ in range(400))
    assert seen / 400 < 0.08


def test_a_stray_value_is_no_level() -> None:
    values = 0.01 * np.random.default_rng(2).standard_normal(20)
    values[12] += 5
    assert change_points(values) == []


@given(st.lists(st.floats(-1e6, 1e6), max_size=2 * LEAST_OF_LEVEL - 1))
def test_too_few_have_none(values: list[float]) -> None:
    assert change_points(values) == []


@given(st.floats(-1e6, 1e6), st.integers(0, 30))
def test_what_never_varies_never_changes(value: float, n: int) -> None:
    assert change_points([value] * n) == []


def test_scale_and_place_do_not_matter() -> None:
    values = np.random.default_rng(3).standard_normal(20)
    values[12:] += 3
    assert change_points(values) == change_points(1e-6 * values + 40) == [12]
