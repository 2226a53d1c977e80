"""Two settings against each other: hand-computed cases, and coverage."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as some

from hypertare.stats.interval import of_mean, t_quantile
from hypertare.stats.ratio import Side, contrast, pooled


def side(values: dict[int, float], boot: int | None = None) -> Side:
    return Side(
        {number: [value] for number, value in values.items()},
        dict.fromkeys(values, 0 if boot is None else boot),
    )


def test_rounds_that_hold_both_sides_are_paired() -> None:
    """Differences 1, 2, 3: mean 2, standard error 1/√3."""
    found = contrast(side({0: 10, 1: 20, 2: 30}), side({0: 11, 1: 22, 2: 33, 3: 1000}))
    assert found.estimate == pytest.approx(2)
    half = t_quantile(2, 0.975) / math.sqrt(3)
    assert (found.low, found.high) == (pytest.approx(2 - half), pytest.approx(2 + half))


def test_settings_with_benches_of_their_own_are_two_samples() -> None:
    """Means 2 and 5, each with a standard error of 1/√3: √(2/3) with 4 degrees of freedom."""
    found = contrast(side({0: 1, 1: 2, 2: 3}), side({3: 4, 4: 5, 5: 6}, boot=1))
    assert found.estimate == pytest.approx(3)
    assert found.error == pytest.approx(math.sqrt(2 / 3)) and found.freedom == pytest.approx(4)


def test_the_mean_of_settings_weighs_each_the_same() -> None:
    parts = [of_mean([1.0, 2.0, 3.0]), of_mean([11.0, 12.0, 13.0, 14.0])]
    found = pooled(parts)
    assert found.estimate == pytest.approx((2 + 12.5) / 2)
    assert found.error == pytest.approx(math.hypot(parts[0].error, parts[1].error) / 2)
    assert 2 < found.freedom < 5
    assert pooled(parts[:1]) is parts[0]


def test_what_never_varies_has_no_interval() -> None:
    same = contrast(side({0: 1.0, 1: 1.0}), side({0: 3.0, 1: 3.0}))
    assert same.estimate == 2 and same.constant and same.low is None
    assert pooled([same, same]).constant
    with pytest.raises(ValueError, match="nothing"):
        pooled([])


@given(
    some.lists(some.floats(-1e3, 1e3), min_size=2, max_size=8),
    some.lists(some.floats(-1e3, 1e3), min_size=2, max_size=8),
)
def test_the_other_way_round_is_the_negative(a: list[float], b: list[float]) -> None:
    one, other = (side(dict(enumerate(values))) for values in (a, b))
    there, back = contrast(one, other), contrast(other, one)
    assert there.estimate == pytest.approx(-back.estimate, abs=1e-9)
    if there.low is not None and back.high is not None:
        assert there.low == pytest.approx(-back.high, abs=1e-6)


@pytest.mark.parametrize("shared", [True, False])
def test_intervals_cover(shared: bool) -> None:
    """95 % of them hold the truth, whether what rounds share cancels or not."""
    chance = random.Random(7)
    held, times = 0, 2000
    for _ in range(times):
        weather = {number: chance.gauss(0, 1) for number in range(6)}
        first = side({n: weather[n] + chance.gauss(0, 0.3) for n in range(6)})
        if shared:
            second = side({n: 1 + weather[n] + chance.gauss(0, 0.3) for n in range(6)})
        else:
            second = side({n: 1 + chance.gauss(0, 1) for n in range(6, 12)}, boot=1)
        found = contrast(first, second)
        assert found.low is not None and found.high is not None
        held += found.low <= 1 <= found.high
    assert 0.93 < held / times < 0.97
