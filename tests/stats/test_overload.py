from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from hypertare.stats.line_rate import FOLLOWS, Offered, shape

RATES = st.lists(st.floats(1, 1e9), min_size=4, max_size=12, unique=True)


def exact(points: dict[float, float]) -> list[Offered]:
    return [Offered(rate, goodput, goodput, goodput) for rate, goodput in points.items()]


@pytest.mark.parametrize(
    ("goodputs", "kind"),
    [
        ([10, 20, 30, 40], "keeps up"),
        ([10, 20, 30, 38.5], "keeps up"),
        ([10, 20, 30, 37], "levels off"),
        ([10, 20, 20, 20], "levels off"),
        ([10, 25, 20, 20], "levels off"),
        # A dip on the way is no livelock.
        ([10, 25, 5, 24], "levels off"),
        ([10, 25, 20, 19], "livelock"),
        ([10, 20, 5, 0], "livelock"),
        ([10, 5, 2, 1], "livelock"),
    ],
)
def test_by_hand(goodputs: list[float], kind: str) -> None:
    found = shape(exact(dict(zip([10.0, 20, 30, 40], goodputs, strict=True))))
    assert found.kind == kind
    assert found.peak.goodput == max(goodputs)
    assert found.last.rate == 40


@given(RATES, st.floats(1e-3, 1e3))
def test_what_takes_all_keeps_up(rates: list[float], share: float) -> None:
    assert shape(exact({rate: share * rate for rate in rates})).kind == "keeps up"


@given(RATES, st.floats(1e-6, 1e6), st.floats(1e-6, 1e6), st.randoms())
def test_neither_units_nor_order_matter(rates, of_rate, of_goodput, random) -> None:
    points = {rate: min(rate, 0.5 * max(rates)) for rate in rates}
    one = shape(exact(points))
    scaled = exact({of_rate * rate: of_goodput * goodput for rate, goodput in points.items()})
    assert shape(random.sample(scaled, len(scaled))).kind == one.kind


@given(RATES, st.floats(0.1, 0.9))
def test_what_a_full_link_gives_levels_off(rates: list[float], limit: float) -> None:
    # Else the lowest rate, which may be beyond the limit itself, predicts what the highest gives.
    assume(min(rates) < FOLLOWS * max(rates))
    top = limit * max(rates)
    assert shape(exact({rate: min(rate, top) for rate in rates})).kind == "levels off"


def test_an_interval_on_both_sides_decides_nothing() -> None:
    points = [*exact({10.0: 10.0, 20.0: 25.0, 30.0: 20.0}), Offered(40, 20, 15, 25)]
    assert shape(points).kind == "undecided"
    points[-1] = Offered(40, 39, 35, 43)
    assert shape(points).kind == "undecided"
    points[-1] = Offered(40, 10, None, None)
    assert shape(points).kind == "livelock"


@pytest.mark.parametrize("rates", [[1, 2, 3], [1, 2, 2, 3], [0, 1, 2, 3]])
def test_too_little_to_say(rates: list[float]) -> None:
    with pytest.raises(ValueError):
        shape([Offered(rate, rate, rate, rate) for rate in rates])
