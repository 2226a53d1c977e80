"""Shares of factors: worked by hand, by an independent least squares, and by simulation."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Iterator

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from statsmodels.formula.api import ols
from statsmodels.stats.anova import anova_lm

from hypertare.stats.effects import Decomposition, _Grid, decompose
from tests.stats import effects_coverage
from tests.stats.effects_coverage import Setting

# The 2^3 of a textbook's shape, in the order (1), c, b, bc, a, ac, ab, abc: contrasts by hand are
# A = 96, B = 28, C = 16, AB = -4, AC = 24, BC = 4, ABC = 4.
MEANS = np.array([10.0, 8.0, 18.0, 16.0, 30.0, 38.0, 34.0, 46.0])
SQUARES = {(0,): 96**2, (1,): 28**2, (2,): 16**2, (0, 1): 4**2, (0, 2): 24**2, (1, 2): 4**2}
THIRD = 4**2


def measured(means: np.ndarray, noise: np.ndarray) -> np.ndarray:
    return means[:, None] + noise


def test_by_hand_without_noise_shares_are_exact() -> None:
    found = decompose(np.repeat(MEANS[:, None], 2, axis=1), (2, 2, 2), (0, 1))
    whole = sum(SQUARES.values()) + THIRD
    assert found.exact and found.noise == 0 and found.balanced
    for subset, squares in SQUARES.items():
        part = found.parts[subset]
        assert part.share == pytest.approx(squares / whole)
        assert (part.low, part.high, part.p) == (part.share, part.share, None)
    assert found.rest is not None and found.rest.share == pytest.approx(THIRD / whole)
    of_a = SQUARES[0,] + SQUARES[0, 1] + SQUARES[0, 2] + THIRD
    assert found.totals[0].share == pytest.approx(of_a / whole)
    assert (found.sizes[0].highest, found.sizes[0].lowest) == (1, 0)
    assert found.sizes[0].difference == pytest.approx(96 / 4)


def test_by_hand_with_noise() -> None:
    """Two rounds that lie 1 above and below each cell's mean, by the signs of ABC. The sum of squares of A
    is 96² x 2 / 8, that of the noise 16 with 7 degrees of freedom.
    """
    signs = np.array([1, -1, -1, 1, -1, 1, 1, -1.0])
    found = decompose(measured(MEANS, np.stack([signs, -signs], axis=1)), (2, 2, 2), (0, 0))
    noise = 16 / 7
    f = 96**2 * 2 / 8 / noise
    # Rounds differ in ABC alone, so of the others the noise is that of all trials.
    assert found.parts[0,].p == pytest.approx(stats.f.sf(f, 1, 7))
    variance = {
        subset: max(0, (squares / 8 - noise / 2) / 8) for subset, squares in SQUARES.items()
    }
    # In ABC the one round is 8 above the other: its noise is 16 with one degree of freedom.
    third = max(0, (THIRD / 8 - 16 / 2) / 8)
    whole = sum(variance.values()) + third
    for subset, of_subset in variance.items():
        assert found.parts[subset].share == pytest.approx(of_subset / whole)
    assert found.noise == pytest.approx(noise / (noise + whole))


def type_three(values: np.ndarray, shape: tuple[int, ...], subset: tuple[int, ...]) -> float:
    """p of a part by two fits: all columns (sum to zero, rounds beside them) with those of the part and
    without.
    """
    codes = [np.vstack([np.eye(n - 1), -np.ones(n - 1)]) for n in shape]
    places = range(len(shape))
    blocks: dict[tuple[int, ...], np.ndarray] = {}
    for n in range(len(shape) + 1):
        for one in itertools.combinations(places, n):
            made = np.ones((1, 1))
            for place in places:
                made = np.kron(made, codes[place] if place in one else np.ones((shape[place], 1)))
            blocks[one] = made
    cells, rounds = np.nonzero(np.isfinite(values))
    beside = np.eye(values.shape[1])[rounds][:, 1:]
    y = values[cells, rounds]

    def fitted(parts: list[tuple[int, ...]]) -> tuple[float, int]:
        columns = np.hstack([*(blocks[one][cells] for one in parts), beside])
        solved, _, rank, _ = np.linalg.lstsq(columns, y)
        return float(((y - columns @ solved) ** 2).sum()), int(rank)

    (full, rank), (less, lower) = fitted(list(blocks)), fitted([o for o in blocks if o != subset])
    below = len(y) - rank
    return float(stats.f.sf((less - full) / (rank - lower) / (full / below), rank - lower, below))


@pytest.mark.parametrize("gaps", [(), ((1, 2),), ((0, 0), (4, 1), (4, 3), (5, 2))])
def test_f_is_that_of_two_fits(gaps: tuple[tuple[int, int], ...]) -> None:
    rng = np.random.default_rng(5)
    values = measured(rng.standard_normal(6), 0.8 * rng.standard_normal((6, 4)))
    values += np.array([0.0, 3.0, -2.0, 1.0])
    for gap in gaps:
        values[gap] = math.nan
    # All in one boot, whose rounds are then what noise may differ by.
    found = decompose(values, (2, 3), (0, 0, 0, 0))
    assert found.balanced == (not gaps)
    pooled = [subset for subset in found.parts if not _has_own_noise(values, subset)]
    assert pooled
    for subset in pooled:
        assert found.parts[subset].p == pytest.approx(type_three(values, (2, 3), subset))


def _has_own_noise(values: np.ndarray, subset: tuple[int, ...]) -> bool:
    """Whether rounds differ more in a part than trials do: then F is another one."""
    p = decompose(values, (2, 3), (0, 0, 0, 0)).parts[subset].p
    return p != pytest.approx(type_three(values, (2, 3), subset))


def anova(values: np.ndarray, shape: tuple[int, ...], kind: int) -> dict[tuple[int, ...], float]:
    """p of each part by statsmodels, with rounds beside the cells."""
    cells, rounds = np.nonzero(np.isfinite(values))
    places = np.unravel_index(cells, shape)
    names = "abc"[: len(shape)]
    table = pd.DataFrame({"y": values[cells, rounds], "round": rounds})
    for name, place in zip(names, places, strict=True):
        table[name] = place
    parts = " * ".join(f"C({name}, Sum)" for name in names)
    found = anova_lm(ols(f"y ~ C(round, Sum) + {parts}", table).fit(), typ=kind)
    return {
        tuple(place for place, name in enumerate(names) if f"C({name}, Sum)" in row): p
        for row, p in found["PR(>F)"].items()
        if "round" not in row and row not in ("Residual", "Intercept")
    }


def reported(values: np.ndarray, shape: tuple[int, ...]) -> Iterator[tuple[tuple[int, ...], float]]:
    """Our p of the parts whose noise is that of all trials, which is what statsmodels knows."""
    found = decompose(values, shape, [0] * values.shape[1])
    grid = _Grid(values, shape, (0,) * values.shape[1], 0.95)
    for subset, part in found.parts.items():
        if grid._noises[subset][0] == grid.noise:
            assert part.p is not None
            yield subset, part.p


def simulated(shape: tuple[int, ...], rounds: int, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    cells = math.prod(shape)
    return measured(0.7 * rng.standard_normal(cells), rng.standard_normal((cells, rounds)))


@pytest.mark.parametrize("shape", [(2, 3), (2, 3, 4), (3, 5)])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_balanced_factorial_is_statsmodels_type_two(shape: tuple[int, ...], seed: int) -> None:
    values = simulated(shape, 4, seed)
    theirs = anova(values, shape, 2)
    ours = dict(reported(values, shape))
    assert len(ours) >= 1
    for subset, p in ours.items():
        assert p == pytest.approx(theirs[subset], rel=1e-6)


@pytest.mark.parametrize("shape", [(2, 3), (2, 3, 4), (3, 5)])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_an_unbalanced_factorial_is_statsmodels_type_three(
    shape: tuple[int, ...], seed: int
) -> None:
    """Type II and III are the same for the highest interaction; else type III weighs cells alike, as our
    shares do (docs/method.md)."""
    values = simulated(shape, 5, seed)
    rng = np.random.default_rng(seed)
    for cell in rng.choice(len(values), 4, replace=False):
        values[cell, rng.choice(5, 2, replace=False)] = math.nan
    second, third = anova(values, shape, 2), anova(values, shape, 3)
    ours = dict(reported(values, shape))
    assert len(ours) >= 1
    for subset, p in ours.items():
        assert p == pytest.approx(third[subset], rel=1e-6)
        if len(subset) == len(shape):
            assert p == pytest.approx(second[subset], rel=1e-6)


def test_shares_are_sobol_s_indices() -> None:
    """By scipy, which draws: the levels at random, each as often as the others."""
    shape = (2, 3, 4)
    rng = np.random.default_rng(11)
    means = rng.standard_normal(shape)
    found = decompose(np.repeat(means.reshape(-1, 1), 2, axis=1), shape, (0, 1))
    drawn = stats.sobol_indices(
        func=lambda levels: means[tuple(levels.astype(int))],
        n=2**13,
        dists=[stats.randint(0, count) for count in shape],
        rng=np.random.default_rng(1),
    )
    for place in range(len(shape)):
        assert found.parts[place,].share == pytest.approx(drawn.first_order[place], abs=0.02)
        assert found.totals[place].share == pytest.approx(drawn.total_order[place], abs=0.02)


def test_a_missing_cell_is_what_the_others_say_of_it() -> None:
    """Without an interaction nothing is lost; and a missing trial does not move the means."""
    means = np.add.outer([0.0, 1.0, 5.0], [0.0, 2.0, 3.0, 7.0]).ravel()
    noise = 0.01 * np.random.default_rng(1).standard_normal((12, 4))
    whole = decompose(measured(means, noise), (3, 4), range(4))
    values = measured(means, noise) + np.array([0.0, 100.0, -30.0, 4.0])
    values[7] = math.nan
    values[2, 1] = math.nan
    found = decompose(values, (3, 4), range(4))
    assert not found.balanced
    for subset in ((0,), (1,)):
        assert found.parts[subset].share == pytest.approx(whole.parts[subset].share, abs=0.003)
    assert found.parts[0, 1].share < 0.001 and (found.parts[0, 1].p or 0) > 0.01


def test_by_hand_which_factor_leads() -> None:
    """What A and C have without the other: A, AB and C, BC. AC and ABC are in both totals."""
    found = decompose(np.repeat(MEANS[:, None], 2, axis=1), (2, 2, 2), (0, 1))
    of_a, of_c = SQUARES[0,] + SQUARES[0, 1], SQUARES[2,] + SQUARES[1, 2]
    lead = found.leads[0, 2]
    assert lead.share == lead.low == lead.high == pytest.approx(of_a / (of_a + of_c))
    difference = found.totals[0].share - found.totals[2].share
    whole = sum(SQUARES.values()) + THIRD
    assert difference == pytest.approx((of_a - of_c) / whole)


def test_equal_factors_lead_nobody() -> None:
    """Both factors do the same, so in 95 % of experiments, or more, the interval holds a half."""
    rng, held = np.random.default_rng(7), 0
    means = np.add.outer([0.0, 1.0, 2.0], [0.0, 1.0, 2.0]).ravel()
    for _ in range(200):
        lead = decompose(measured(means, rng.standard_normal((9, 4))), (3, 3), range(4)).leads[0, 1]
        held += lead.low <= 0.5 <= lead.high
    assert held / 200 >= 0.92


def test_nothing_leads_where_there_is_nothing() -> None:
    lead = decompose(np.full((4, 3), 7.0), (2, 2), (0, 1, 2)).leads[0, 1]
    assert (lead.low, lead.high) == (0, 1)


def test_what_boots_change_is_no_effect() -> None:
    """The factor's effect turns over from boot to boot; trials within a boot agree all but exactly."""
    rng = np.random.default_rng(3)
    turned = np.repeat([1.0, -0.6, 0.8], 4)
    values = np.outer([1.0, 1.0, -1.0, -1.0], turned) + np.array([[0], [9], [0], [9]])
    values += 0.01 * rng.standard_normal((4, 12))
    by_boots = decompose(values, (2, 2), np.repeat([0, 1, 2], 4).tolist())
    assert (by_boots.parts[0,].p or 0) > 0.3 and by_boots.parts[0,].low == 0
    assert (by_boots.parts[1,].p or 1) < 1e-6


def test_a_factor_that_is_not_named_is_in_the_rest() -> None:
    values = np.repeat(MEANS[:, None], 2, axis=1)
    whole, some = (
        decompose(values, (2, 2, 2), (0, 1)),
        decompose(values, (2, 2, 2), (0, 1), named=(0, 2)),
    )
    assert set(some.parts) == {(0,), (2,), (0, 2)} and set(some.totals) == set(some.sizes) == {0, 2}
    assert some.parts[0,] == whole.parts[0,]
    assert some.rest is not None
    assert sum(p.share for p in some.parts.values()) + some.rest.share == pytest.approx(1)


@pytest.mark.parametrize(
    ("values", "shape", "why"),
    [
        (np.zeros((2, 3)), (2, 1), "two levels"),
        (np.zeros((4, 1)), (2, 2), "no replicates"),
        (np.array([[1, 2], [1, 3], [math.nan] * 2, [math.nan] * 2]), (2, 2), "too few cells"),
    ],
)
def test_what_cannot_be_taken_apart(values: np.ndarray, shape: tuple[int, ...], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        decompose(values, shape, range(values.shape[1]))


def test_nothing_at_all_has_no_shares() -> None:
    found = decompose(np.full((4, 3), 7.0), (2, 2), (0, 1, 2))
    assert found.exact and all(part.share == 0 for part in found.parts.values())


def test_what_arithmetic_rounds_off_is_no_effect() -> None:
    """One of five levels of a factor differs, the levels of the other in nothing: as lost blocks do."""
    values = np.zeros((10, 4))
    values[8:] = 1024
    found = decompose(values, (5, 2), (0, 1, 2, 3))
    assert found.exact
    assert [found.parts[of].share for of in ((0,), (1,), (0, 1))] == [1, 0, 0]
    assert (found.totals[1].share, found.sizes[1].difference) == (0, 0)


def shares(found: Decomposition) -> float:
    return sum(part.share for part in found.parts.values()) + (
        found.rest.share if found.rest else 0
    )


def test_a_large_factorial_is_quick() -> None:
    """4 x 3 x 7 x 8 cells in 4 boots; the bound is generous, for a busy machine."""
    rng = np.random.default_rng(1)
    values = measured(rng.standard_normal(672), 0.1 * rng.standard_normal((672, 4)))
    began = time.process_time()
    assert shares(decompose(values, (4, 3, 7, 8), range(4))) == pytest.approx(1)
    values[17, 2], values[100] = math.nan, math.nan
    assert shares(decompose(values, (4, 3, 7, 8), range(4))) == pytest.approx(1)
    assert time.process_time() - began < 8


# --- coverage


@pytest.mark.parametrize("setting", effects_coverage.SETTINGS, ids=str)
def test_intervals_hold_the_truth(setting: Setting) -> None:
    """Of shares of single factors 93 to 98 %. What is small beside its noise is held more often: an
    interval from 0 on misses on one side only; so is an interaction where boots change single factors.
    """
    held = effects_coverage.held(setting, experiments=300, seed=1)
    # 300 experiments of k factors: two standard errors of the mean are about 1.5 points.
    assert 0.925 <= held.mains <= 0.99
    assert 0.925 <= held.totals <= 0.99
    # With Bonferroni's correction where there are three factors.
    assert held.leads >= 0.925
    assert held.pairs >= 0.93
    assert held.sizes >= 0.93
