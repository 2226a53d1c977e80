from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from hypertare.stats.noise import floor, spread


def test_pairs_within_blocks_by_hand() -> None:
    seen = floor({0: [100.0, 102.0], 1: [100.0, 99.0], 2: [100.0, 101.0]}, "lower")
    assert seen is not None and seen.pairs == "same block" and seen.n == 3
    logs = np.log([1.02, 0.99, 1.01])
    spread = math.sqrt((logs**2).mean())
    assert seen.least == pytest.approx(math.sinh(stats.t.ppf(0.975, 2) * spread / math.sqrt(3)))
    middle = math.exp(logs.mean()) - 1
    assert seen.low < middle < seen.high


def test_successive_blocks_serve_once() -> None:
    seen = floor({0: [100.0], 1: [101.0], 2: [100.0], 3: [99.0], 4: [100.0]}, "higher")
    assert seen is not None and seen.pairs == "successive blocks" and seen.n == 2


def test_a_lasting_shift_is_noise() -> None:
    shifted = floor({block: [100.0, 105.0] for block in range(9)}, "lower")
    assert shifted is not None
    assert shifted.low == pytest.approx(0.05) and shifted.high == pytest.approx(0.05)
    assert shifted.least == pytest.approx(0.05 * 2.306 / 3, rel=0.05)


def test_less_can_be_shown_with_more_blocks() -> None:
    rng = np.random.default_rng(1)
    blocks = {at: list(100 * np.exp(0.01 * rng.standard_normal(2))) for at in range(30)}
    few = floor({at: blocks[at] for at in range(5)}, "lower")
    many = floor(blocks, "lower")
    assert few is not None and many is not None
    assert many.least < few.least / 1.5
    # Half-width for differences of two trials with 1 % each: t(29) x √2 x 1 % / √30.
    assert many.least == pytest.approx(2.045 * math.sqrt(2) * 0.01 / math.sqrt(30), rel=0.4)


@given(st.floats(1e-6, 1e6))
def test_unit_does_not_matter(factor: float) -> None:
    blocks = {0: [3.0, 3.1], 1: [3.2, 3.0], 2: [2.9, 3.0]}
    one = floor(blocks, "higher")
    other = floor({at: [factor * v for v in values] for at, values in blocks.items()}, "higher")
    assert one is not None and other is not None
    assert one.least == pytest.approx(other.least)


@pytest.mark.parametrize(
    "blocks",
    [{}, {0: [1.0]}, {0: [1.0], 1: [1.1]}, {0: [], 1: []}, {0: [0.0, 1.0], 1: [1.0, 1.0]}],
)
def test_too_little(blocks: dict[int, list[float]]) -> None:
    assert floor(blocks, "lower") is None


def test_spread_by_hand() -> None:
    assert spread([0.0, 0.1, -0.1]) == pytest.approx(math.sqrt((0.1**2 + 0.2**2) / 2))
    assert spread([1.0]) == spread([]) == 0


def test_a_drift_is_no_spread() -> None:
    assert spread([0.01 * block for block in range(30)]) == pytest.approx(0.01)
    seen = floor({block: [math.exp(0.01 * block)] for block in range(30)}, "lower")
    assert seen is not None and seen.spread == pytest.approx(math.sinh(0.01))
