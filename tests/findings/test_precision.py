"""What is not known as precisely as was asked for is said, whatever ended the run."""

from __future__ import annotations

import pytest

from hypertare.findings.estimates import half_width, missed, sufficient
from hypertare.runs.summary import Estimate, NoiseFloor
from hypertare.study.design import DesignSettings


def cost(low: float | None, middle: float, high: float | None, **more: object) -> Estimate:
    return Estimate.model_validate(
        {
            "response": "elapsed",
            "unit": "s",
            "better": "lower",
            "cell": {"workload": "command"},
            "platform": "guest",
            "baseline": "native",
            "n": 5,
            "estimate": 1.0,
            "cost": middle,
            "cost_low": low,
            "cost_high": high,
            **more,
        }
    )


LEADING = {"command": "elapsed"}


def reported_of(estimates: list[Estimate], of_cost: float) -> str | None:
    return next(missed(estimates, [], LEADING, DesignSettings(of_cost=of_cost)), None)


def test_widths_by_hand() -> None:
    """A guest of 25 times (20 to 30): 5 of 25, of a cost of 24/25."""
    slow = cost(19, 24, 29)
    assert half_width(slow) == pytest.approx(5 / 25)
    assert sufficient(slow, DesignSettings(of_cost=0.25), 0.0) == pytest.approx(0.25 * 24 / 25)
    halved = cost(0.48, 0.5, 0.52, better="higher")
    assert half_width(halved) == pytest.approx(0.02)
    assert sufficient(halved, DesignSettings(of_cost=0.2), 0.0) == pytest.approx(0.1)


def test_what_was_missed_is_named() -> None:
    reported = reported_of([cost(19, 24, 29)], 0.0)
    assert reported is not None and "(2 %) was not reached in elapsed of guest" in reported
    assert reported_of([cost(19, 24, 29)], 0.25) is None
    reported = reported_of([cost(10, 24, 60)], 0.2)
    assert reported is not None and "2 %, or 20 % of the cost itself" in reported


def test_only_leading_costs_are_asked_about() -> None:
    wide = cost(-0.5, 0.1, 0.9)
    assert reported_of([wide.model_copy(update={"response": "user"})], 0) is None
    assert reported_of([wide.model_copy(update={"cost": None})], 0) is None
    assert reported_of([cost(None, 0.1, None, exact=True)], 0) is None
    assert reported_of([cost(None, 0.1, None)], 0) is not None


def test_noise_of_the_machine_suffices() -> None:
    """Native differs by 30 % from block to block: of a saving of half, that is 15 % of native."""
    floor = NoiseFloor(
        response="elapsed",
        cell={"workload": "command"},
        n=4,
        cost=0.1,
        cost_low=-0.1,
        cost_high=0.1,
        spread=0.3,
    )
    design = DesignSettings(of_noise=1.0)
    assert sufficient(cost(-0.6, -0.5, -0.4), design, 0.3) == pytest.approx(0.15)
    noisy = [cost(-0.2, 0.05, 0.3)]
    assert not list(missed(noisy, [floor], LEADING, design))
    (reported,) = missed([cost(-0.4, 0.05, 0.5)], [floor], LEADING, design)
    assert "(2 %, or the machine's own noise)" in reported
    elsewhere = floor.model_copy(update={"cell": {"workload": "another"}})
    assert list(missed(noisy, [elsewhere], LEADING, design))
