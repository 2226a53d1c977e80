"""What a run of several comparisons says: simulated, where the truth is known."""

from __future__ import annotations

import numpy as np
import pytest

from hypertare.findings.estimates import estimate
from hypertare.runs.summary import Estimate
from tests.made_trials import RESPONSES, blocks

RUNS = 120


def decided(costs: list[float], noise: float, seed: int, boots: list[int]) -> list[Estimate]:
    """The comparisons of one run: natively and in a guest, in as many cells as there are costs."""
    chance = np.random.default_rng(seed)
    trials = []
    for cell, cost in enumerate(costs):
        sides = {
            platform: (8 * factor * np.exp(noise * chance.standard_normal(len(boots)))).tolist()
            for platform, factor in (("native", 1.0), ("guest", 1 + cost))
        }
        trials += blocks(sides, cell={"workload": "w", "cell": cell}, boots=boots)
    found = estimate(trials, RESPONSES, leading={"w": "elapsed"})
    return [one for one in found.estimates if one.baseline is not None]


@pytest.mark.parametrize("boots", [[0, 0, 0, 0], [0, 1, 2, 3]])
@pytest.mark.parametrize("noise", [0.03, 0.05])
def test_a_tenfold_cost_among_ten_comparisons_is_always_shown(
    boots: list[int], noise: float
) -> None:
    costs = [9.0] * 5 + [0.0] * 5
    for seed in range(RUNS):
        found = decided(costs, noise, seed, boots)
        assert all(one.verdict == "costs" for one in found[:5])
        for one in found:
            assert one.cost_low is not None and one.cost_high is not None
            assert (one.verdict in ("costs", "gains")) == (
                not one.cost_low <= 0 <= one.cost_high
            ) or (one.reason == "size")


@pytest.mark.parametrize("boots", [[0, 0, 0, 0], [0, 1, 2, 3]])
def test_where_nothing_differs_an_alarm_is_seldom(boots: list[int]) -> None:
    alarms = [
        any(one.verdict in ("costs", "gains") for one in decided([0.0] * 10, 0.04, seed, boots))
        for seed in range(2 * RUNS)
    ]
    # By 5 % of runs it is 12 of 240; 20 and more have a chance of 2 %.
    assert sum(alarms) < 20


def test_of_what_is_shown_hardly_anything_is_none() -> None:
    """The false discovery rate: a quarter of all comparisons cost something."""
    false = shown = 0
    for seed in range(RUNS):
        found = decided([0.2] * 3 + [0.0] * 9, 0.03, seed, [0, 1, 2, 3])
        claimed = [place for place, one in enumerate(found) if one.verdict in ("costs", "gains")]
        shown += len(claimed)
        false += sum(place >= 3 for place in claimed)
    assert shown > 2.5 * RUNS
    assert false / shown < 0.06
