from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hypertare.stats import fairness

SHARE = st.floats(0, 1e12)
SHARES = st.lists(SHARE, min_size=1, max_size=32)
WEIGHT = st.floats(1e-3, 1e6)

# Mb/s of the receiving guests in Anhalt & Vicat-Blanc Primet (2008), INRIA RR-6658, and its indices.
RECEIVED = {
    2: ([465, 420], 0.997),
    4: ([318, 291, 178, 87.2], 0.849),
    8: ([296, 274, 169, 65.3, 30.1, 14.4, 19, 4.86], 0.483),
}


@pytest.mark.parametrize("guests", RECEIVED)
def test_the_published_indices(guests: int) -> None:
    shares, published = RECEIVED[guests]
    assert fairness.jain(shares) == pytest.approx(published, abs=6e-4)


def test_by_hand() -> None:
    assert fairness.jain([1, 2, 3]) == pytest.approx(36 / 42)
    assert fairness.jain([2, 4, 6], weights=[1, 2, 3]) == pytest.approx(1)
    assert fairness.jain([5, 0, 0, 0]) == pytest.approx(1 / 4)
    assert fairness.jain([0, 0]) == 1
    assert fairness.entitlements([30, 10], [1, 1]) == pytest.approx([1.5, 0.5])
    assert fairness.entitlements([30, 10], [3, 1]) == pytest.approx([1, 1])


@given(SHARES, st.floats(1e-6, 1e6), st.randoms())
def test_index_lies_in_its_range_whatever_unit_and_order(shares, factor, random) -> None:
    index = fairness.jain(shares)
    assert 1 / len(shares) - 1e-9 <= index <= 1 + 1e-9
    shuffled = random.sample(shares, len(shares))
    assert fairness.jain(shuffled) == pytest.approx(index)
    scaled = [factor * share for share in shares]
    # A share that is hardly a number loses its digits, or all of it, in another unit.
    if all(share == 0 or share > 1e-300 for share in (*shares, *scaled)):
        assert fairness.jain(scaled) == pytest.approx(index)


@given(st.integers(1, 20), st.integers(1, 20))
def test_some_share_alike_and_the_others_get_nothing(some: int, others: int) -> None:
    assert fairness.jain([7.0] * some + [0.0] * others) == pytest.approx(some / (some + others))


@given(st.lists(st.tuples(st.floats(1e-3, 1e6), WEIGHT), min_size=1, max_size=16))
def test_entitlements_weighted_by_what_is_due_make_one(pairs) -> None:
    shares, weights = zip(*pairs, strict=True)
    due = np.array(weights) / sum(weights)
    assert float((fairness.entitlements(shares, weights) * due).sum()) == pytest.approx(1)


@pytest.mark.parametrize(
    ("shares", "weights"),
    [([], None), ([1, -1], None), ([1, float("nan")], None), ([1, 2], [1]), ([1, 2], [1, 0])],
)
def test_what_is_no_share_is_refused(shares, weights) -> None:
    with pytest.raises(ValueError):
        fairness.jain(shares, weights)


def test_nobody_is_entitled_to_nothing() -> None:
    with pytest.raises(ValueError, match="nobody"):
        fairness.entitlements([0, 0], [1, 1])


@given(st.lists(st.floats(0, 1e9), min_size=1, max_size=8))
def test_no_index_is_below_its_least(shares: list[float]) -> None:
    assert fairness.jain(shares) >= fairness.least(len(shares)) * (1 - 1e-12)
    assert fairness.jain([1.0] + [0.0] * (len(shares) - 1)) == pytest.approx(
        fairness.least(len(shares))
    )
