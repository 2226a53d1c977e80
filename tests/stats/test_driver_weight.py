from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hypertare.stats.growth import driver_weight


@pytest.mark.parametrize(("guests", "weight"), [(1, 256), (2, 1024), (4, 3072), (8, 8192)])
def test_by_hand(guests: int, weight: float) -> None:
    assert driver_weight(guests) == weight


@given(st.integers(1, 64), st.floats(1, 65535))
def test_more_guests_need_more_and_their_weights_scale(guests: int, weight: float) -> None:
    assert driver_weight(guests + 1, weight) > driver_weight(guests, weight)
    assert driver_weight(guests, 2 * weight) == pytest.approx(2 * driver_weight(guests, weight))


def test_no_guests_have_no_weight() -> None:
    with pytest.raises(ValueError, match="0 guests"):
        driver_weight(0)
