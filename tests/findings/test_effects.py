"""Which factor matters most, of trials whose effects are known."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import count, product

import numpy as np
import pytest

from hypertare.base.variables import Level
from hypertare.design.trials import FinishedTrial
from hypertare.findings.effects import effects
from hypertare.findings.series import Rules
from hypertare.runs.summary import Effects
from hypertare.study.analyses import EffectsSettings
from tests.made_trials import ELAPSED, GOODPUT, trial

MTU, MESSAGE = "knobs.mtu", "workloads.tcp.message"
FACTORS: dict[str, tuple[Level, ...]] = {MTU: (500, 1500), MESSAGE: ("1K", "8K", "64K")}
OF_MTU = {500: 1.0, 1500: 1.9}
OF_MESSAGE = {"1K": 1.0, "8K": 1.2, "64K": 1.21}
RULES = Rules("native", 0.95, 0.01, "wall")


def made(
    platform: str = "native",
    boots: int = 4,
    noise: float = 0.005,
    failed: Mapping[str, Level] | None = None,
    scale: float = 1e8,
    response: str = "goodput",
) -> list[FinishedTrial]:
    """A block of each cell in each boot; those cells that have all of `failed` give nothing."""
    rng, blocks, found = np.random.default_rng(len(platform)), count(), []
    for boot in range(boots):
        for mtu, message in product(*FACTORS.values()):
            cell: dict[str, Level] = {"workload": "tcp", MTU: mtu, MESSAGE: message}
            value = scale * OF_MTU[int(mtu)] * OF_MESSAGE[str(message)]
            value *= float(np.exp(noise * rng.standard_normal()))
            lost = failed is not None and failed.items() <= cell.items()
            values = None if lost else {response: value}
            found.append(trial(platform, next(blocks), values, cell, boot))
    return found


def found(trials: list[FinishedTrial], rules: Rules = RULES, **settings: object) -> Effects:
    (one,) = effects(trials, FACTORS, {"tcp": [GOODPUT]}, EffectsSettings(**settings), rules)  # type: ignore[arg-type]
    return one


def test_the_factor_that_matters_comes_first_with_its_size() -> None:
    one = found(made())
    first, second, both = one.effects
    assert first.factors == (MTU,) and second.factors == (MESSAGE,)
    assert both.factors == (MTU, MESSAGE) and both.total is None and both.ratio is None
    logs = [np.log(list(of.values())).var() for of in (OF_MTU, OF_MESSAGE)]
    assert first.share == pytest.approx(logs[0] / sum(logs), abs=0.01)
    assert (first.level, first.against) == (1500, 500)
    assert first.ratio == pytest.approx(1.9, rel=0.01)
    assert first.ratio_low is not None and first.ratio_high is not None
    assert first.ratio_low < 1.9 < first.ratio_high < 2
    assert first.adjusted is not None and first.p is not None and first.p <= first.adjusted < 1e-6
    assert one.scale == "log" and one.balanced and one.boots == 4 and one.trials == 24
    assert one.noise is not None and one.noise < 0.01 and one.rest is None
    assert one.cell == {"workload": "tcp"} and one.levels == FACTORS
    (lead,) = one.leads
    assert (lead.factor, lead.against) == (MTU, MESSAGE)
    assert 0.9 < lead.low < lead.share < lead.high <= 1


def test_less_is_better_and_the_best_level_comes_first() -> None:
    (one,) = effects(
        made(response="elapsed"), FACTORS, {"tcp": [ELAPSED]}, EffectsSettings(), RULES
    )
    assert (one.effects[0].level, one.effects[0].against) == (500, 1500)
    assert one.effects[0].ratio == pytest.approx(1 / 1.9, rel=0.01)


def test_a_zero_is_on_a_linear_scale() -> None:
    one = found(made(scale=0.0))
    assert one.reason is not None and "do not differ" in one.reason
    trials = made(scale=1.0)
    zero = [t for t in trials if t.planned.cell[MTU] == 1500]
    for t in zero:
        t.values["goodput"] = 0.0
    one = found(trials)
    assert one.scale == "linear" and one.effects[0].difference is not None
    assert one.effects[0].ratio is None


def test_an_efficiency_is_of_the_same_block() -> None:
    """Both sides gain alike by the MTU, so of the efficiency nothing is left but noise."""
    trials = made() + made("guest", scale=0.5e8)
    one = found(trials, of="efficiency")
    assert one.platform == "guest" and one.of == "efficiency" and one.better == "higher"
    assert all((effect.adjusted or 0) > 0.05 for effect in one.effects)
    assert one.noise is not None and one.noise > 0.5


def test_platforms_are_apart_and_may_be_chosen() -> None:
    trials = made() + made("guest")
    asked = {"tcp": [GOODPUT]}
    every = effects(trials, FACTORS, asked, EffectsSettings(), RULES)
    assert [one.platform for one in every] == ["native", "guest"]
    (one,) = effects(trials, FACTORS, asked, EffectsSettings(platforms=("guest",)), RULES)
    assert one.platform == "guest"
    raw = [effect.p or 0 for of in every for effect in of.effects]
    adjusted = [effect.adjusted or 0 for of in every for effect in of.effects]
    assert min(adjusted) == pytest.approx(min(raw) * 6)


def test_a_cell_that_failed_is_left_out_visibly() -> None:
    lost = {MTU: 500, MESSAGE: "8K"}
    one = found(made(failed=lost))
    assert one.left_out == (lost,) and not one.balanced and one.trials == 20
    assert one.effects[0].factors == (MTU,) and one.effects[0].ratio == pytest.approx(1.9, rel=0.02)


def test_a_level_that_failed_is_left_out_whole() -> None:
    one = found(made(failed={MESSAGE: "64K"}))
    assert one.left_out == ({MESSAGE: "64K"},) and one.balanced
    assert one.levels == {MTU: (500, 1500), MESSAGE: ("1K", "8K")}
    one = found(made(failed={MTU: 500}))
    assert one.reason is not None and "two factors" in one.reason and not one.effects


def test_one_trial_each_says_nothing() -> None:
    one = found(made(boots=1))
    assert one.reason == "no replicates" and not one.effects


def test_virtual_time_may_be_exact() -> None:
    one = found(made(noise=0.0), Rules("native", 0.95, 0.01, "virtual"))
    assert one.exact and one.noise == 0 and one.effects[0].p is None
    assert one.effects[0].share_low == one.effects[0].share == one.effects[0].share_high
    assert one.effects[0].ratio_low == one.effects[0].ratio == pytest.approx(1.9)


def test_one_factor_has_no_effects() -> None:
    alone = [t for t in made() if t.planned.cell[MESSAGE] == "8K"]
    assert not effects(alone, FACTORS, {"tcp": [GOODPUT]}, EffectsSettings(), RULES)


def test_boots_of_plots_that_boot_apart_stand_side_by_side() -> None:
    """Each MTU has boots of its own; the first of one is beside the first of the other."""
    trials = [
        trial("native", t.planned.block, t.values, t.planned.cell, t.planned.boot * 2 + (mtu > 500))
        for t in made()
        for mtu in [int(t.planned.cell[MTU])]
    ]
    one = found(trials)
    assert one.boots == 8 and one.balanced and one.effects[0].ratio == pytest.approx(1.9, rel=0.01)
