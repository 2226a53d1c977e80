"""What levels of a factor change: figures whose effects are known."""

from __future__ import annotations

import pytest

from hypertare.design.trials import FinishedTrial
from hypertare.findings.doubt import of_rates
from hypertare.findings.levels import factors_of, level_changes, referenced, unmeasured
from hypertare.findings.series import Rules, series
from hypertare.platforms.registry import KINDS as PLATFORMS
from hypertare.runs.summary import LevelChange
from hypertare.study.factors import concerns
from tests.made_trials import ELAPSED, GOODPUT, noisy, trial

MTU = "bench.mtu"
RULES = Rules("native", 0.95, 0.01, "wall")
FACTORS = {MTU: (1500, 9000)}


def measured(
    effects: dict[tuple[str, int], float], n: int = 8, response: str = "goodput", **cell: str
) -> list[FinishedTrial]:
    """Goodput by platform and MTU; each MTU has benches, so blocks and boots, of its own."""
    made = []
    for (platform, mtu), level in effects.items():
        for number, value in enumerate(noisy(level, n, 0.002, seed=mtu + len(platform))):
            block = mtu * 100 + number
            cells = {"workload": "tcp", MTU: mtu, **cell}
            made.append(trial(platform, block, {response: value}, cells, boot=mtu))
    return made


def changes(trials: list[FinishedTrial], **more: object) -> dict[str, LevelChange]:
    found = level_changes(trials, FACTORS, {"tcp": GOODPUT}, RULES)
    return {one.platform: one for one in found}


def test_a_level_is_compared_within_each_platform() -> None:
    """Natively 9000 gives twice as much, in the guest half as much again."""
    found = changes(
        measured(
            {
                ("native", 1500): 1e9,
                ("native", 9000): 2e9,
                ("guest", 1500): 0.5e9,
                ("guest", 9000): 0.75e9,
            }
        )
    )
    native, guest = found["native"], found["guest"]
    assert (guest.factor, guest.level, guest.against, guest.settings) == (MTU, 9000, 1500, 1)
    assert native.cost == pytest.approx(-1, abs=0.2) and native.cost_change is None
    assert guest.cost == pytest.approx(-0.5, abs=0.1)
    assert guest.cell == {"workload": "tcp"}
    # A cost of 50 % natively against 1500 is 62.5 % against 9000: the baseline gains more.
    assert guest.cost_change == pytest.approx(0.125, abs=0.01)
    assert guest.cost_change_low is not None and 0 < guest.cost_change_low < 0.125


def test_rounds_of_one_boot_cancel_what_they_share() -> None:
    """Blocks vary by 10 %, levels by 3 %: seen only where rounds are paired."""
    values = noisy(1e9, 10, 0.003, seed=1), noisy(1.03e9, 10, 0.003, seed=2)
    made = [
        trial("guest", 2 * number + place, {"goodput": value}, {"workload": "tcp", MTU: mtu})
        for place, (mtu, figures) in enumerate(zip(FACTORS[MTU], values, strict=True))
        for number, value in enumerate(figures)
    ]
    (one,) = level_changes(made, FACTORS, {"tcp": GOODPUT}, RULES)
    assert one.verdict == "gains" and one.cost == pytest.approx(-0.03, abs=0.006)


def test_a_failed_trial_does_not_shift_the_rounds() -> None:
    values = noisy(1e9, 8, 0.001, seed=1), noisy(1.05e9, 8, 0.001, seed=2)
    made = [
        trial(
            "guest",
            2 * number + place,
            None if (place, number) == (0, 2) else {"goodput": value},
            {"workload": "tcp", MTU: mtu},
        )
        for place, (mtu, figures) in enumerate(zip(FACTORS[MTU], values, strict=True))
        for number, value in enumerate(figures)
    ]
    (one,) = level_changes(made, FACTORS, {"tcp": GOODPUT}, RULES)
    assert one.verdict == "gains" and one.blocks == 7
    assert one.cost_low is not None and one.cost_high is not None
    assert one.cost_high - one.cost_low < 0.02


def test_with_another_factor_it_is_the_mean_over_its_levels() -> None:
    made = measured({("native", 1500): 1e9, ("native", 9000): 2e9}, nic="e1000")
    made += measured({("native", 1500): 1e9, ("native", 9000): 8e9}, nic="virtio-net")
    (one,) = level_changes(made, FACTORS, {"tcp": GOODPUT}, RULES)
    assert one.settings == 2 and one.cell == {"workload": "tcp"}
    # The geometric mean of 2 and 8.
    assert one.cost == pytest.approx(1 - 4, rel=0.2)


def test_zero_forbids_ratios_but_not_differences() -> None:
    made = [
        trial("native", number, {"elapsed": value}, {"workload": "build", MTU: mtu}, boot=mtu)
        for mtu, values in ((1500, (0.0, 0.0, 0.0)), (9000, (1.0, 1.1, 0.9)))
        for number, value in enumerate(values, start=mtu)
    ]
    (one,) = level_changes(made, FACTORS, {"build": ELAPSED}, RULES)
    assert one.cost is None and one.difference == pytest.approx(1) and one.verdict == "costs"


def test_levels_stand_in_the_study_s_order_and_another_may_lead() -> None:
    made = [
        trial("native", number, {"goodput": 1.0}, {"workload": "tcp", MTU: mtu})
        for number, mtu in enumerate((9000, 500, 1500))
    ]
    settings = {"factors": {MTU: [1500, 500, 9000, 20000]}, "workloads": {"tcp": {}}}
    found = factors_of(settings, made)
    assert found == {MTU: (1500, 500, 9000)}
    assert referenced(found, {MTU: "9000"}) == {MTU: (9000, 1500, 500)}
    with pytest.raises(ValueError, match=MTU):
        referenced(found, {MTU: "20000"})


def test_one_level_is_no_factor() -> None:
    made = [trial("native", 0, {"goodput": 1.0}, {"workload": "tcp", MTU: 1500})]
    assert factors_of({"factors": {MTU: [1500, 9000]}}, made) == {}


def test_levels_that_a_platform_does_not_have_are_no_comparison_of_it() -> None:
    """Natively the same twice, with another rate offered: 50 % more goodput that nothing has changed."""
    path = "sut.datapath"
    made = [
        trial(
            platform,
            block,
            {"goodput": value},
            {"workload": "tcp", path: level},
            boot=boot,
        )
        for platform in ("native", "guest")
        for boot, (level, goodput) in enumerate((("qemu", 1e9), ("vhost", 1.5e9)))
        for block, value in enumerate(noisy(goodput, 6, 0.002, seed=boot), 10 * boot)
    ]
    factors = {path: ("qemu", "vhost")}

    def of_platform(path: str, name: str) -> bool:
        return concerns(path, PLATFORMS[name], whole_pcs=True)

    found = level_changes(made, factors, {"tcp": GOODPUT}, RULES, of_platform)
    assert [one.platform for one in found] == ["guest"]


def test_a_level_that_was_not_offered_is_compared_with_nothing() -> None:
    path = "workloads.load.rate"
    made = [
        trial(
            "guest",
            block,
            {"goodput": value, "offered_share": value / asked},
            {"workload": "load", path: rate},
        )
        for rate, goodput, asked in (("50M", 50e6, 50e6), ("300M", 55e6, 300e6))
        for block, value in enumerate(noisy(goodput, 6, 0.002, shared=False))
    ]
    (one,) = level_changes(made, {path: ("50M", "300M")}, {"load": GOODPUT}, RULES)
    assert one.doubt is not None and "sent 18 % of the rate that it was asked for" in one.doubt
    # What another setting changes there is not in doubt, and the run has a warning.
    (other,) = level_changes(
        [
            trial("guest", n, {"goodput": v, "offered_share": 0.5}, {"workload": "load", MTU: mtu})
            for mtu, goodput in ((1500, 55e6), (9000, 80e6))
            for n, v in enumerate(noisy(goodput, 6, 0.002, shared=False))
        ],
        {MTU: (1500, 9000)},
        {"load": GOODPUT},
        RULES,
    )
    assert other.doubt is None and other.verdict == "gains"
    (text,) = of_rates(series(made))
    assert "in 1 of 2 settings" in text and "rate 300M), 18 % of it" in text
    assert not list(of_rates(series(made[:6])))


def test_a_level_of_which_nothing_was_begun_is_known() -> None:
    """Also one of a workload's own; one that failed has its own sentence."""
    path = "workloads.command.command"
    settings = {
        "factors": {path: ["gzip f", "pigz f", "zstd f"]},
        "workloads": {"command": {"factors": {MTU: [1500, 9000]}}},
    }
    made = [
        trial("native", 0, {"elapsed": 1.0}, {"workload": "command", path: "gzip f", MTU: 1500}),
        trial("native", 0, None, {"workload": "command", path: "pigz f", MTU: 9000}),
    ]
    assert unmeasured(settings, made) == [(path, "zstd f")]
    assert unmeasured(settings, []) == [
        *((path, level) for level in ("gzip f", "pigz f", "zstd f")),
        (MTU, 1500),
        (MTU, 9000),
    ]
