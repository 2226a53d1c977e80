"""A run's hosts side by side."""

from __future__ import annotations

import math
import random
from typing import Any

import pytest

from hypertare.base.variables import Response
from hypertare.design.trials import FinishedTrial, PlannedTrial
from hypertare.findings.estimates import estimate
from hypertare.findings.hosts import differing, of_hosts

HOSTS = ("ssh lab1", "ssh lab2")
RESPONSES = {"elapsed": Response("elapsed", "s", "lower", "elapsed time")}
RULES: dict[str, Any] = {"baseline": "native", "leading": {"work": "elapsed"}}


def run(speeds: tuple[float, float], costs: tuple[float, float]) -> list[FinishedTrial]:
    """Four boots of three blocks; a host makes all of its trials as many times as long."""
    chance, trials = random.Random(1), []
    for boot in range(4):
        for block in range(3 * boot, 3 * boot + 3):
            for platform, factor in (("native", 1.0), ("guest", costs[boot % 2])):
                seconds = speeds[boot % 2] * factor * math.exp(chance.gauss(0, 0.01))
                planned = PlannedTrial(len(trials), block, boot, platform, {"workload": "work"})
                trials.append(FinishedTrial(planned, "ok", None, seconds, {"elapsed": seconds}))
    return trials


def ratios(trials: list[FinishedTrial]) -> dict[str, float]:
    found = of_hosts(trials, RESPONSES, HOSTS, RULES)
    assert found is not None
    return {
        row.what: row.figures[1].estimate
        for row in found.rows
        if row.platform == "guest" and row.figures[1] is not None
    }


def test_what_a_host_does_to_both_sides_of_a_pair_is_in_no_ratio() -> None:
    plain, uneven = run((1.0, 1.0), (1.2, 1.2)), run((1.0, 5.0), (1.2, 1.2))
    assert ratios(uneven) == pytest.approx(ratios(plain))
    for trials in (plain, uneven):
        (cost,) = (e.cost for e in estimate(trials, RESPONSES, **RULES).estimates if e.cost)
        assert cost == pytest.approx(0.2, abs=0.02)
        assert not list(differing(of_hosts(trials, RESPONSES, HOSTS, RULES)))


def test_a_ratio_is_one_whichever_way_is_better() -> None:
    trials = run((1.0, 1.0), (2.0, 2.0))
    rates = {"elapsed": Response("elapsed", "1/s", "higher", "rate")}
    found = of_hosts(trials, rates, HOSTS, RULES)
    assert found is not None
    for row in found.rows:
        if row.platform == "guest":
            ratio = row.figures[1]
            assert ratio is not None and ratio.low is not None and ratio.high is not None
            assert ratio.estimate == pytest.approx(2.0, rel=0.02)
            assert ratio.low < ratio.estimate < ratio.high


def test_hosts_whose_costs_are_apart_are_named() -> None:
    trials = run((1.0, 1.0), (1.1, 1.5))
    assert list(ratios(trials)) == list(HOSTS)
    assert list(ratios(trials).values()) == pytest.approx([1.1, 1.5], rel=0.02)
    (said,) = differing(of_hosts(trials, RESPONSES, HOSTS, RULES))
    assert "ssh lab1 and ssh lab2 have nothing in common" in said


def test_the_names_of_hosts_change_nothing_else() -> None:
    trials = run((1.0, 2.0), (1.1, 1.5))
    other = of_hosts(trials, RESPONSES, ("b", "a"), RULES)
    assert other is not None and [row.what for row in other.rows] == ["b", "a", "b", "a"]
    named = dict(zip(("b", "a"), ratios(trials).values(), strict=True))
    assert named == {
        row.what: row.figures[1].estimate for row in other.rows if row.figures[1] is not None
    }


def test_one_host_has_no_table() -> None:
    assert of_hosts(run((1.0, 1.0), (1.2, 1.2)), RESPONSES, (), RULES) is None
