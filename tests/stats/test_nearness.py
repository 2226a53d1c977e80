"""How near a distribution is to another, by hand and by what must hold of any."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hypertare.base.errors import HypertareError
from hypertare.protocol.records import Histogram
from hypertare.stats.histograms import NEAR, SHIFTED, near_limit, near_share, near_time, shift
from tests.stats.test_percentile import BUCKETS, expanded, made

FACTORS = st.integers(1, 1000)


def moved(histogram: Histogram, by: int = 0, times: int = 1) -> Histogram:
    return made(tuple((value * times + by, count) for value, count in histogram.buckets))


def test_by_hand() -> None:
    """Of 1 to 100 the 95 % quantile is 95; of 51 to 150 there are 45 up to that."""
    hundred = made(tuple((value, 1) for value in range(1, 101)))
    later = moved(hundred, by=50)
    assert near_share(hundred, hundred) == 0.95
    assert near_share(hundred, later) == 0.45
    assert near_share(later, hundred) == 1.0
    assert shift(hundred, later) == (50.0,) * len(SHIFTED)
    slow_tail = made(tuple((value if value <= 90 else 10 * value, 1) for value in range(1, 101)))
    assert near_share(hundred, slow_tail) == 0.9
    assert shift(hundred, slow_tail, (0.5, 0.9, 0.99)) == (0.0, 0.0, 891.0)


def test_near_in_time_by_hand() -> None:
    """Of 8 and 12, as often, the mean is 10 and the deviation 2: within 12 are 6 and 12 of 6, 12 and 22."""
    base = made(((8, 5), (12, 5)))
    assert near_limit(base) == 12.0
    assert near_time(base, made(((6, 1), (12, 1), (22, 1)))) == 18 / 40
    assert near_time(base, made(((6, 2), (12, 2), (22, 2)))) == 18 / 40
    assert near_time(base, made(((13, 9),))) == 0.0
    assert near_time(base, base) == 1.0
    # One slow one widens the spread: mean 19, deviation 27, and all up to 46 are near.
    slow = made(((10, 9), (100, 1)))
    assert near_limit(slow) == 46.0
    assert near_time(slow, slow) == 90 / 190
    assert near_time(made(((0, 1),)), made(((0, 3),))) == 1.0


@given(BUCKETS, BUCKETS)
def test_near_in_time_of_any_two(a: object, b: object) -> None:
    base, other = made(a), made(b)
    share = near_time(base, other)
    # Those that are left out are slower than any that counts: their part of the time is the greater one.
    limit = near_limit(base)
    near = sum(value <= limit for value in expanded(other)) / len(expanded(other))
    assert 0 <= share <= near + 1e-9 or sum(expanded(other)) == 0
    again = made(tuple(reversed(other.buckets)) + other.buckets)
    assert near_time(base, again) == pytest.approx(share)


@given(BUCKETS)
def test_nothing_is_nearer_than_oneself_and_less_than_95_percent_never(buckets: object) -> None:
    one = made(buckets)
    assert NEAR - 1e-9 <= near_share(one, one) <= 1
    assert shift(one, one) == (0.0,) * len(SHIFTED)


@given(BUCKETS, BUCKETS, FACTORS, FACTORS)
def test_what_must_hold_of_any_two(a: object, b: object, by: int, times: int) -> None:
    base, other = made(a), made(b)
    share = near_share(base, other)
    assert 0 <= share <= 1
    # Whoever is later is not nearer, and is as much later at every place.
    assert near_share(base, moved(other, by=by)) <= share
    assert shift(base, moved(other, by=by)) == pytest.approx([d + by for d in shift(base, other)])
    # In another unit both are as near.
    assert near_share(moved(base, times=times), moved(other, times=times)) == share
    # More of the same, in another order, says the same.
    again = made(tuple(reversed(other.buckets)) + other.buckets)
    assert near_share(base, again) == pytest.approx(share)
    assert shift(other, base) == pytest.approx([-d for d in shift(base, other)])


@given(BUCKETS, BUCKETS)
def test_the_share_is_what_counting_says(a: object, b: object) -> None:
    base, other = sorted(expanded(made(a))), expanded(made(b))
    limit = base[max(0, -(-len(base) * 95 // 100) - 1)]
    counted = sum(value <= limit for value in other) / len(other)
    assert near_share(made(a), made(b)) == pytest.approx(counted)


def test_what_cannot_be() -> None:
    one = made(((5, 1),))
    with pytest.raises(HypertareError, match="empty"):
        near_share(made(()), one)
    with pytest.raises(HypertareError, match="empty"):
        near_share(one, made(()))
    with pytest.raises(HypertareError, match="empty"):
        near_time(made(()), one)
    with pytest.raises(ValueError, match="cannot be compared"):
        shift(one, Histogram(unit="us", buckets=((5, 1),)))
