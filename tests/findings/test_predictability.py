"""Laws over a run's trials: what was published is found again, and what cannot be predicted is said."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hypertare.design.trials import FinishedTrial
from hypertare.findings.predictability import predictability
from hypertare.runs.summary import Clock, Predictability
from hypertare.study.analyses import PredictabilitySettings
from hypertare.workloads.responses import RESPONSES
from tests.made_trials import trial

STREAM = {response.name: response for response in RESPONSES["stream"]}
PUBLISHED = Path(__file__).parents[2] / "studies" / "virtual-router" / "published.csv"


def found(
    values: Mapping[int, Sequence[Mapping[str, float]]],
    boots: Sequence[int] | None = None,
    clock: Clock = "wall",
    **settings: object,
) -> dict[str, Predictability]:
    """By law and response; of trials by number of guests."""
    made: list[FinishedTrial] = []
    for guests, trials in values.items():
        cell = {"workload": "tcp", "sut.guests": guests}
        made += [
            trial("xen", block, one, cell, boots[block] if boots else 0)
            for block, one in enumerate(trials)
        ]
    chosen = PredictabilitySettings.model_validate(settings)
    judged = predictability(made, STREAM, chosen, baseline="native", confidence=0.95, clock=clock)
    return {f"{one.law}, {one.response}": one for one in judged}


def published(experiment: str) -> dict[int, list[dict[str, float]]]:
    """Aggregate, and CPU as shares of one of two CPUs, of the published experiment."""
    rows = list(csv.DictReader(line for line in PUBLISHED.open() if not line.startswith("#")))
    made: dict[int, list[dict[str, float]]] = {}
    for guests in (1, 2, 4, 8):
        mine = [r for r in rows if r["experiment"] == experiment and r["domus"] == str(guests)]
        domus = [row for row in mine if row["node"] != "dom0"]
        (driver,) = [row for row in mine if row["node"] == "dom0"]
        rates = [float(row["throughput_mbps"]) for row in domus]
        values = {
            "goodput": sum(rates) * 1e6,
            "least_rate": min(rates) * 1e6,
            "most_rate": max(rates) * 1e6,
            "outside_cpu": sum(float(row["cpu_percent"]) for row in domus) / 100,
            "driver_cpu": float(driver["cpu_percent"]) / 100,
        }
        made[guests] = [values]
    return made


DRIVER, AGGREGATE = "driver domain CPU, driver_cpu", "universal scalability law, goodput"
LEAST, MOST = "fair rate, least_rate", "fair rate, most_rate"


def test_the_published_laws_of_transmission() -> None:
    laws = found(published("transmit"))
    (least,), (most,) = laws[LEAST].predictions, laws[MOST].predictions
    # The geometric mean of 914, 940 and 942 Mb/s; of 8 guests one had 114 and one 123.
    assert (
        least.predicted == most.predicted == pytest.approx((914 * 940 * 942) ** (1 / 3) / 8 * 1e6)
    )
    assert (least.measured, most.measured) == pytest.approx((114e6, 123e6))
    (driver,) = laws[DRIVER].predictions
    # By hand: the constant is the geometric mean of 1.501, 0.765 and 0.991; 8 guests used 15.08 %.
    constant = (30.85 / 20.55 * 35.19 / 22.99 / 2 * 51.02 / 17.18 / 3) ** (1 / 3)
    assert driver.predicted == pytest.approx(constant * 4 * 0.1508, rel=1e-3)
    assert driver.measured == pytest.approx(0.6351)
    assert all(abs(one.error) < 0.1 for one in (least, most, driver))
    assert laws[LEAST].fitted == (1, 2, 4)


@pytest.mark.parametrize("experiment", ["transmit", "receive", "forward"])
@pytest.mark.parametrize("clock", ["wall", "virtual"])
def test_one_figure_has_no_interval_and_decides_nothing(experiment: str, clock: Clock) -> None:
    for law in found(published(experiment), clock=clock).values():
        assert law.verdict == "undecided"
        assert all(one.error_low is None for one in law.predictions)


def test_receiving_was_not_what_was_foretold() -> None:
    """All of them together got it, and no single guest did."""
    laws = found(published("receive"))
    errors = {name: law.predictions[0].error for name, law in laws.items() if law.predictions}
    assert abs(errors[AGGREGATE]) < 0.1
    assert errors[LEAST] > 1 and errors[MOST] < -0.5


def test_forwarding_was_not_fair_by_the_law_of_one_constant() -> None:
    """660 Mb/s with one router, 377 with eight: the aggregate falls, so no R / N."""
    (most,) = found(published("forward"))[MOST].predictions
    assert most.error > 0.1


def test_in_virtual_time_what_two_trials_agree_about_is_exact() -> None:
    twice = {n: trials * 2 for n, trials in published("transmit").items()}
    for clock, verdict in (("virtual", "predictable"), ("wall", "undecided")):
        laws = found(twice, clock=clock)  # type: ignore[arg-type]
        assert laws[LEAST].verdict == laws[MOST].verdict == laws[DRIVER].verdict == verdict
    lacking = {**twice, 8: twice[8][:1]}
    assert found(lacking, clock="virtual")[LEAST].verdict == "undecided"


def test_three_levels_are_fitted_to_two() -> None:
    three = {n: trials for n, trials in published("transmit").items() if n < 8}
    laws = found(three)
    assert laws[LEAST].fitted == (1, 2)
    assert [one.guests for one in laws[LEAST].predictions] == [4]
    scalability = laws[AGGREGATE]
    assert scalability.verdict == "undecided" and not scalability.predictions
    assert scalability.reason is not None and "needs 3" in scalability.reason


def test_what_is_held_out_is_chosen_and_what_is_not_there_is_not_missed() -> None:
    assert found(published("transmit"), held_out=[2, 8])[LEAST].fitted == (1, 4)
    assert found(published("transmit"), held_out=[16])[LEAST].fitted == (1, 2, 4)
    assert found(published("transmit"), held_out=[1, 2, 4, 8])[LEAST].fitted == (1, 2, 4)


ALONE = "loaded rate, guest alone, goodput"


def test_a_loaded_rate_is_foretold_from_a_guest_alone() -> None:
    alone, beside = (914e6, 0.2055), {2: (902e6, 0.1836), 4: (535e6, 0.1134), 8: (217e6, 0.047)}
    values = {1: [{"goodput": alone[0], "outside_cpu_share": alone[1], "outside_cpu": 1.0}]}
    for n, (rate, share) in beside.items():
        # The phase is the longer the more there are: seconds of CPU predict nothing.
        shares = {"outside_cpu_share": share + 0.9, "neighbours_cpu_share": 0.9}
        seconds = {"outside_cpu": n * (share + 0.9), "neighbours_cpu": n * 0.9}
        values[n] = [{"goodput": rate, **shares, **seconds}]
    laws = found(values)
    # What the driver domain used is not known, so the published law says nothing.
    assert set(laws) == {ALONE}
    two, four, eight = laws[ALONE].predictions
    assert two.predicted == pytest.approx(914e6 * 0.1836 / 0.2055)
    assert (two.measured, four.measured) == pytest.approx((902e6, 535e6))
    assert two.error == pytest.approx(816.6 / 902 - 1, abs=1e-3)
    assert eight.error == pytest.approx(209 / 217 - 1, abs=1e-3)
    twice = {n: trials * 2 for n, trials in values.items()}
    for error, verdict in ((0.1, "predictable"), (0.05, "not predictable")):
        exact = found(twice, clock="virtual", error=error)
        assert exact[ALONE].verdict == verdict


def test_the_published_loaded_rate_is_over_the_guest_and_the_driver_domain() -> None:
    """By hand: alone 10 % and 30 % of a CPU bring 800 Mb/s; beside load 8 % and 24 % bring 700."""

    def made(rate: float, guest: float, driver: float, load: float = 0.0) -> list[dict[str, float]]:
        values = {"goodput": rate, "outside_cpu_share": guest + load, "driver_cpu_share": driver}
        beside = {"neighbours_cpu_share": load, "neighbours_cpu": load} if load else {}
        return [{**values, "outside_cpu": guest + load, "driver_cpu": driver, **beside}]

    laws = found({1: made(800e6, 0.1, 0.3), 2: made(700e6, 0.06, 0.26, 0.6)})
    (published,) = laws["loaded rate, goodput"].predictions
    (ours,) = laws[ALONE].predictions
    assert published.predicted == pytest.approx(800e6 * 0.32 / 0.4)
    assert published.error == pytest.approx(640 / 700 - 1)
    assert ours.predicted == pytest.approx(800e6 * 0.06 / 0.1)


@settings(max_examples=30)
@given(st.floats(1e3, 1e12), st.floats(0.001, 0.05), st.integers(0, 1000))
def test_a_true_law_is_held_whatever_the_unit(rate: float, spread: float, seed: int) -> None:
    chance = np.random.default_rng(seed)
    values = {
        n: [{"goodput": rate * float(np.exp(spread * x))} for x in chance.standard_normal(6)]
        for n in (1, 2, 4, 8)
    }
    fair = found(values)[LEAST]
    (one,) = fair.predictions
    assert one.error_low is not None and one.error_high is not None
    assert one.error_low < one.error < one.error_high
    assert one.error == pytest.approx(one.predicted / one.measured - 1)
    assert abs(one.error) < 6 * spread


def test_trials_of_one_boot_are_alike() -> None:
    values = {
        n: [
            {"goodput": 1e9 * (1.2 if boot else 1.0) * (1 + 1e-4 * n)}
            for boot in (0, 0, 0, 1, 1, 1)
        ]
        for n in (1, 2, 4)
    }
    alike = found(values)[LEAST].predictions[0]
    apart = found(values, boots=[0, 0, 0, 1, 1, 1])[LEAST].predictions[0]
    assert alike.error_high is not None and apart.error_high is not None
    assert apart.error_high > 1.5 * alike.error_high


def test_nothing_is_foretold_of_the_baseline_or_of_one_number() -> None:
    cell = {"workload": "tcp", "sut.guests": 2}
    trials = [trial("native", 0, {"goodput": 1e9}, {**cell, "sut.guests": n}) for n in (1, 2)]
    trials.append(trial("xen", 0, {"goodput": 1e9}, cell))
    settings = PredictabilitySettings()
    assert not list(
        predictability(trials, STREAM, settings, baseline="native", confidence=0.95, clock="wall")
    )


def test_the_aggregates_beside_ours_are_the_guests_sums() -> None:
    path = PUBLISHED.with_name("goodput.csv")
    rows = csv.DictReader(line for line in path.open() if not line.startswith("#"))
    for row in rows:
        if row["platform"] == "xen":
            (values,) = published(row["workload"])[int(row["sut.guests"])]
            assert float(row["value"]) == pytest.approx(values["goodput"] / 1e6)


def test_by_a_line_the_fair_rate_is_of_what_that_carries() -> None:
    """941.49 Mb/s over 8, whatever fewer guests had."""
    carried = {"theoretical_goodput": 941.49e6}
    values = {n: [{**one, **carried} for one in of] for n, of in published("transmit").items()}
    laws = found(values)
    (least,) = laws[LEAST].predictions
    assert least.predicted == pytest.approx(941.49e6 / 8)
    assert laws[LEAST].fitted == () and laws[LEAST].formula == "R / N, R what the line carries"
    assert laws[AGGREGATE].fitted == (1, 2, 4), "that law has no rate of a line in it"


def test_a_goodput_in_doubt_makes_nothing_predictable() -> None:
    values = {n: [{"goodput": 1e9 + i, "overlap": 0.9} for i in range(3)] for n in (1, 2, 4)}
    assert found(values)[LEAST].verdict == "predictable"
    for n in (2, 4):
        doubtful = {**values, n: [{**one, "overlap": 0.4} for one in values[n]]}
        judged = found(doubtful)[LEAST]
        assert judged.verdict == "undecided"
        (one,) = judged.predictions
        assert one.doubt is not None and one.doubt.startswith(f"with {n} guests: in 3 of 3 trials")
