from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hypertare.stats import ratio

POSITIVE = st.floats(1e-3, 1e9)
BLOCKS = st.dictionaries(
    st.integers(0, 40), st.lists(POSITIVE, min_size=1, max_size=3), min_size=1, max_size=20
)


@given(BLOCKS, BLOCKS)
def test_swapping_the_sides_turns_the_sign(a: dict, b: dict) -> None:
    one, other = ratio.pair(a, b), ratio.pair(b, a)
    assert one.blocks == other.blocks
    assert one.logs is not None and other.logs is not None
    assert np.allclose(one.logs, -other.logs)
    assert np.allclose(one.differences, -other.differences)


@given(BLOCKS, BLOCKS, st.floats(1e-6, 1e6))
def test_unit_does_not_matter(a: dict, b: dict, factor: float) -> None:
    scaled = [{at: [factor * v for v in values] for at, values in side.items()} for side in (a, b)]
    one, other = ratio.pair(a, b), ratio.pair(*scaled)
    assert np.allclose(one.logs, other.logs, atol=1e-9)  # type: ignore[arg-type]


@given(st.floats(-1e3, 1e9, allow_subnormal=False), st.floats(-1e3, 1e9, allow_subnormal=False))
def test_a_block_by_itself_is_paired_as_it_is_among_others(baseline: float, sut: float) -> None:
    log, difference = ratio.of_block(baseline, sut)
    among = ratio.pair({0: [baseline], 1: [2.0]}, {0: [sut], 1: [3.0]})
    assert among.differences[0] == difference
    if among.logs is None:
        assert log is None
    else:
        assert log == pytest.approx(among.logs[0], rel=1e-12, abs=1e-12)


@given(BLOCKS, BLOCKS)
def test_blocks_without_a_side_are_left_out(a: dict, b: dict) -> None:
    assert set(ratio.pair(a, b).blocks) == a.keys() & b.keys()


def test_by_hand() -> None:
    # Block 3: geometric means 4 and 6 (of 4 and 9). Block 5 was planned and gave nothing.
    seen = ratio.pair({3: [2.0, 8.0], 4: [10.0], 5: [1.0]}, {3: [4.0, 9.0], 4: [5.0], 5: []})
    assert seen.blocks == (3, 4)
    assert seen.logs == pytest.approx([math.log(6 / 4), math.log(0.5)])
    assert seen.differences == pytest.approx([1.5, -5.0])


@pytest.mark.parametrize("value", [0.0, -1.0])
def test_no_logs_of_zero_or_below(value: float) -> None:
    seen = ratio.pair({0: [1.0], 1: [2.0]}, {0: [value], 1: [2.0]})
    assert seen.logs is None
    assert seen.differences == pytest.approx([value - 1, 0])
    # In a block that is left out it does no harm.
    assert ratio.pair({1: [2.0]}, {0: [value], 1: [2.0]}).logs is not None


def test_cost_is_a_loss_in_both_directions() -> None:
    half = math.log(0.5)
    assert ratio.cost(half, "higher") == pytest.approx(0.5)
    assert ratio.cost(half, "lower") == pytest.approx(-0.5)
    assert ratio.cost_bounds(half, 0.0, "higher") == pytest.approx((0.0, 0.5))
    assert ratio.cost_bounds(half, 0.0, "lower") == pytest.approx((-0.5, 0.0))


@given(st.floats(-5, 5), st.floats(0, 2), st.sampled_from(["higher", "lower"]))
def test_bounds_hold_the_cost(middle: float, half: float, better: ratio.Better) -> None:
    low, high = ratio.cost_bounds(middle - half, middle + half, better)
    assert low <= ratio.cost(middle, better) <= high
