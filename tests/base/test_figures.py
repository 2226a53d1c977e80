"""Numbers for people: scaled, and no more digits than are known."""

from __future__ import annotations

import doctest
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hypertare.base import figures


def test_examples() -> None:
    assert doctest.testmod(figures).failed == 0


@pytest.mark.parametrize(
    ("half_width", "places"),
    # The first two are the Particle Data Group's own: 0.827 ± 0.119 and 0.827 ± 0.367.
    [
        (0.119, 2),
        (0.367, 1),
        (4.0, 0),
        (3.54, 1),
        (3.56, 0),
        (0.96, 1),
        (1.9, 1),
        (950.0, -2),
        (12.0, 0),
    ],
)
def test_places_follow_the_rule(half_width: float, places: int) -> None:
    assert figures.decimals(half_width) == places


@given(st.floats(1e-12, 1e15))
def test_places_keep_one_or_two_digits_of_the_half_width(half_width: float) -> None:
    in_last_places = half_width * 10.0 ** figures.decimals(half_width)
    assert 3.54 < in_last_places < 35.51


@pytest.mark.parametrize("half_width", [0.0, -1.0, math.inf, math.nan])
def test_no_places_for_no_uncertainty(half_width: float) -> None:
    with pytest.raises(ValueError, match="uncertainty"):
        figures.decimals(half_width)


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (9.412e9, "b/s", "9.41 Gb/s"),
        (941.0e6, "b/s", "941 Mb/s"),
        (21.4e-6, "s", "21.4 µs"),
        (21_400.0, "ns", "21.4 µs"),
        (0.0, "s", "0 s"),
        (8.31, "s", "8.31 s"),
        (91_226_112.0, "B", "91.2 MB"),
        (184_300.0, "faults", "184,300 faults"),
        (0.0215, "share", "2.15 %"),
        (-0.5, "s", "−500 ms"),
        (6.8e-6, "s/packet", "6.80 µs/packet"),
        (math.nan, "s", "–"),
        (3.0, "", "3"),
    ],
)
def test_quantities(value: float, unit: str, text: str) -> None:
    assert figures.quantity(value, unit) == text


@pytest.mark.parametrize(
    ("value", "low", "high", "unit", "expected"),
    [
        (8.312, 8.07, 8.38, "s", ("8.31 s", "8.07 to 8.38")),
        (183_123.0, 178_900.0, 187_300.0, "faults", ("183,000 faults", "179,000 to 187,000")),
        (4.97e9, 3.9e9, 6.1e9, "b/s", ("5.0 Gb/s", "3.9 to 6.1")),
        (0.0, -0.002, 0.002, "s", ("0.0 ms", "−2.0 to 2.0")),
        (5.0, None, None, "s", ("5 s", "")),
        (5.0, 5.0, 5.0, "s", ("5 s", "")),
    ],
)
def test_measured(
    value: float, low: float | None, high: float | None, unit: str, expected: tuple[str, str]
) -> None:
    assert figures.measured(value, low, high, unit) == expected


@given(st.floats(1e-9, 1e12), st.floats(1e-4, 0.5), st.sampled_from(["s", "b/s", "B", "faults"]))
def test_rounding_never_moves_a_number_by_more_than_a_sixth_of_its_interval(
    value: float, share: float, unit: str
) -> None:
    half = value * share
    text, _ = figures.measured(value, value - half, value + half, unit)
    shown = float(text.split(" ")[0].replace(",", "").replace("−", "-"))
    divisor, _ = figures.scale(value, unit)
    assert abs(shown * divisor - value) <= half * 0.15 + 1e-12 * value
