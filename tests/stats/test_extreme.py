"""The least of many: simulated cells of which the true least is known."""

from __future__ import annotations

import numpy as np
import pytest

from hypertare.stats.over_cells import extreme


@pytest.mark.parametrize("rounds", [3, 8])
@pytest.mark.parametrize("cells", [1, 3, 20])
@pytest.mark.parametrize("spread", [0.0, 0.5, 10.0])
@pytest.mark.parametrize("shared", [0.0, 1.0])
def test_the_interval_holds_the_true_least(
    cells: int, rounds: int, spread: float, shared: float
) -> None:
    """In 95 % of experiments, or more: Bonferroni's correction is the worst case."""
    rng, held = np.random.default_rng(cells + rounds), 0
    for _ in range(300):
        means = spread * rng.standard_normal(cells)
        noise = rng.standard_normal((cells, rounds)) + shared * rng.standard_normal(rounds)
        found = extreme(means[:, None] + noise, "least")
        assert found.low is not None and found.high is not None
        held += found.low <= means.min() <= found.high
    # One cell is Student's t; two standard errors of 300 experiments are 2.5 points.
    assert held / 300 >= 0.925


def test_what_the_choice_would_claim_without_it() -> None:
    """The least of twenty equal cells lies below the mean of all; an interval of one of them misses."""
    rng, held = np.random.default_rng(1), 0
    for _ in range(300):
        values = rng.standard_normal((20, 5))
        least = values[values.mean(axis=1).argmin()]
        found = extreme(least[None, :], "least")
        assert found.high is not None
        held += found.high >= 0
    assert held / 300 < 0.85


def test_most_is_least_turned_over() -> None:
    values = np.random.default_rng(2).standard_normal((4, 5))
    least, most = extreme(values, "least"), extreme(-values, "most")
    assert (most.place, most.estimate) == (least.place, pytest.approx(-least.estimate))
    assert most.low == pytest.approx(-(least.high or 0)) and most.high == pytest.approx(
        -(least.low or 0)
    )


def test_a_cell_that_spreads_more_keeps_its_own_spread() -> None:
    values = np.random.default_rng(3).standard_normal((10, 6))
    wild = values.copy()
    wild[4] = 30 * values[4] - 100
    assert (extreme(wild, "least").high or 0) - (extreme(wild, "least").low or 0) > 30


def test_what_never_varies_has_no_interval() -> None:
    found = extreme(np.array([[3.0, 3.0], [2.0, 2.0]]), "least")
    assert (found.place, found.estimate, found.low, found.high) == (1, 2.0, None, None)
    with pytest.raises(ValueError, match="fewer than two rounds"):
        extreme(np.array([[3.0]]), "least")
