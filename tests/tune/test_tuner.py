"""Whole tunings of made-up machines whose truth is known."""

from __future__ import annotations

import math

import pytest

from hypertare.base.errors import HypertareError
from hypertare.study import DesignSettings
from hypertare.study.tune import Range
from hypertare.tune.space import Knob, Setting, Space
from hypertare.tune.tuner import least_trials
from tests.tune.made_up import MadeUp, tune

GAIN = math.log(1.1)
KNOBS = (
    Knob("knobs.gro", "on", ("on", "off")),
    Knob("workloads.t.message", 8192, (1024, 8192, 65536)),
    Knob("knobs.idle", "a", ("a", "b")),
)


def nothing(setting: Setting) -> tuple[float, float]:
    return 0.0, 0.0


def larger(setting: Setting) -> tuple[float, float]:
    """Larger messages gain 10 %, smaller ones lose 30 %; turning GRO off costs 20 %."""
    message = {1024: math.log(0.7), 8192: 0.0, 65536: GAIN}[int(setting["workloads.t.message"])]
    return message + (math.log(0.8) if setting.get("knobs.gro") == "off" else 0.0), 0.0


def together(setting: Setting) -> tuple[float, float]:
    """Each alone loses 5 %, both together gain 20 %."""
    off, b = setting["knobs.gro"] == "off", setting["knobs.idle"] == "b"
    return (math.log(1.2) if off and b else math.log(0.95) if off or b else 0.0), 0.0


def trade(setting: Setting) -> tuple[float, float]:
    """GRO off: 4 % more goodput for twice the CPU; idle b: 15 % more goodput for 5 % more CPU."""
    goodput = cpu = 0.0
    if setting["knobs.gro"] == "off":
        goodput, cpu = goodput + math.log(1.04), cpu + math.log(2)
    if setting["knobs.idle"] == "b":
        goodput, cpu = goodput + math.log(1.15), cpu + math.log(1.05)
    return goodput, cpu


def test_a_real_gain_is_found_and_its_interval_holds_the_truth() -> None:
    """At a nominal 95 %; over 25 tunings 4 may miss by chance (P = 0.03 for more)."""
    found = [tune(MadeUp(larger, seed), KNOBS, seed=seed) for seed in range(25)]
    won = [one for one in found if one.recommended is not None]
    assert len(won) >= 24
    assert all(one.recommended["workloads.t.message"] == 65536 for one in won if one.recommended)
    assert all(one.recommended["knobs.gro"] == "on" for one in won if one.recommended)
    held = 0
    for one in won:
        assert one.confirmed is not None
        interval = one.confirmed.mean.interval
        assert interval.low is not None and interval.high is not None
        held += interval.low <= GAIN <= interval.high
    assert held >= len(won) - 4


@pytest.mark.parametrize(
    ("noise", "boot_noise", "goal"),
    [(0.03, 0.0, "goodput"), (0.03, 0.03, "goodput"), (0.1, 0.0, "balance")],
)
def test_where_nothing_matters_the_default_is_kept(
    noise: float, boot_noise: float, goal: str
) -> None:
    """At most 5 % of tunings recommend something, also where boots treat settings differently."""
    found = [
        tune(MadeUp(nothing, seed, noise, boot_noise=boot_noise), KNOBS, goal, seed=seed, budget=60)
        for seed in range(60)
    ]
    wrong = [one for one in found if one.recommended is not None]
    assert len(wrong) <= 3
    promised = [one.confirmed for one in found if one.confirmed is not None]
    assert len(promised) > 10
    # The winner's curse: what the search promised flatters, the confirmation does not.
    assert sum(one.promised for one in promised) / len(promised) > 0.01
    mean = sum(one.mean.interval.estimate for one in promised) / len(promised)
    assert abs(mean) < 0.2 * (noise + boot_noise)


def test_effects_and_interaction_are_shown() -> None:
    found = tune(MadeUp(together, noise=0.02), KNOBS, budget=160)
    shown = {effect.paths for effect in found.effects["goodput"] if effect.shown}
    assert ("knobs.gro", "knobs.idle") in shown
    assert not any("workloads.t.message" in paths for paths in shown)
    assert found.recommended is not None
    assert (found.recommended["knobs.gro"], found.recommended["knobs.idle"]) == ("off", "b")


def test_balance_takes_the_knee() -> None:
    found = tune(MadeUp(trade, noise=0.01), KNOBS, "balance", budget=160)
    assert found.recommended is not None
    assert (found.recommended["knobs.gro"], found.recommended["knobs.idle"]) == ("on", "b")
    goodput = tune(MadeUp(trade, noise=0.01), KNOBS, "goodput", budget=160)
    assert goodput.recommended is not None and goodput.recommended["knobs.gro"] == "off"
    assert tune(MadeUp(trade, noise=0.01), KNOBS, "cpu", budget=160).recommended is None


def test_a_range_is_searched() -> None:
    def truth(setting: Setting) -> tuple[float, float]:
        return -0.05 * (math.log2(int(setting["knobs.weight"])) - 5) ** 2, 0.0

    knob = Knob("knobs.weight", 4, range=Range(low=1, high=256, log=True))
    found = tune(MadeUp(truth, noise=0.02), [knob], budget=120)
    assert found.recommended is not None
    assert 14 <= int(found.recommended["knobs.weight"]) <= 74


def test_the_same_seed_asks_the_same() -> None:
    runs = [MadeUp(larger, 3) for _ in range(2)]
    for lab in runs:
        tune(lab, KNOBS, "balance", seed=5, budget=160)
    assert runs[0].asked == runs[1].asked
    other = MadeUp(larger, 3)
    tune(other, KNOBS, "balance", seed=6, budget=160)
    assert other.asked != runs[0].asked


@pytest.mark.parametrize("budget", [24, 60, 160])
def test_the_budget_is_kept_and_the_confirmation_has_its_share(budget: int) -> None:
    lab = MadeUp(larger, noise=0.02)
    found = tune(lab, KNOBS, budget=budget)
    assert lab.trials <= budget
    # The smallest budget tries a few settings only, of which none need be better.
    assert found.confirmed is not None or budget == 24
    assert found.confirmed is None or len(found.confirmed.duels) >= 5


def test_a_confirmation_has_boots_of_its_own() -> None:
    lab = MadeUp(larger)
    found = tune(lab, KNOBS)
    assert found.confirmed is not None
    boots = {duel.winner.planned.boot for duel in found.confirmed.duels}
    assert len(boots) >= 3
    searched = [cell for cell in lab.asked if cell["tune.phase"] != "confirm"]
    assert min(boots) > 0 and len(searched) > 0


def test_least_trials_are_enough() -> None:
    knobs = KNOBS[1:2]
    least = least_trials(Space(knobs), DesignSettings())
    lab = MadeUp(larger, noise=0.01)
    assert tune(lab, knobs, budget=least).recommended is not None
    assert lab.trials <= least


def test_confirmation_uses_no_trial_of_the_search() -> None:
    lab = MadeUp(larger)
    found = tune(lab, KNOBS)
    assert found.confirmed is not None
    for duel in found.confirmed.duels:
        for trial in (duel.winner, duel.default):
            assert trial.planned.cell["tune.phase"] == "confirm"


def test_a_level_that_a_driver_lacks_is_left_out_with_the_reason() -> None:
    def refuse(setting: Setting) -> str | None:
        return "no such offload" if setting["knobs.gro"] == "off" else None

    found = tune(MadeUp(larger, refuse=refuse), KNOBS)
    assert found.refused == {"knobs.gro": {"off": "no such offload"}}
    assert found.recommended is not None
    assert found.recommended["workloads.t.message"] == 65536


def test_a_default_that_fails_ends_it() -> None:
    with pytest.raises(HypertareError, match="the default setting cannot be measured: no peer"):
        tune(MadeUp(nothing, refuse=lambda setting: "no peer"), KNOBS)


def test_the_smallest_that_loses_nothing() -> None:
    buffers = Knob("workloads.u.socket_buffer", "default", ("16K", "64K", "256K", "1M", "4M"))
    small = {"16K", "64K"}

    def loss(setting: Setting) -> float:
        return 0.03 if setting["workloads.u.socket_buffer"] in small else 0.0

    (found,) = tune(MadeUp(nothing, loss=loss), (), ladders=[buffers]).smallest
    assert (found.level, found.below, found.below_loss) == ("256K", "64K", pytest.approx(0.03))
    (none,) = tune(MadeUp(nothing, loss=lambda s: 0.01), (), ladders=[buffers]).smallest
    assert none.level is None
