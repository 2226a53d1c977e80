"""What is not known as precisely as was asked for is said, whatever ended the run."""

from __future__ import annotations

import pytest

from hypertare.findings.precision import half_width, missed, sufficient
from hypertare.runs.summary import Estimate


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


def test_widths_by_hand() -> None:
    """A guest of 25 times (20 to 30): 5 of 25, of a cost of 24/25."""
    slow = cost(19, 24, 29)
    assert half_width(slow) == pytest.approx(5 / 25)
    assert sufficient(slow, 0.02, 0.25) == pytest.approx(0.25 * 24 / 25)
    halved = cost(0.48, 0.5, 0.52, better="higher")
    assert half_width(halved) == pytest.approx(0.02)
    assert sufficient(halved, 0.02, 0.2) == pytest.approx(0.1)


def test_what_was_missed_is_named() -> None:
    told = missed([cost(19, 24, 29)], LEADING, 0.02, 0.0)
    assert told is not None and "(2 %) was not reached in elapsed of guest" in told
    assert missed([cost(19, 24, 29)], LEADING, 0.02, 0.25) is None
    told = missed([cost(10, 24, 60)], LEADING, 0.02, 0.2)
    assert told is not None and "2 %, or 20 % of the cost itself" in told


def test_only_leading_costs_are_asked_about() -> None:
    wide = cost(-0.5, 0.1, 0.9)
    assert missed([wide.model_copy(update={"response": "user"})], LEADING, 0.02, 0) is None
    assert missed([wide.model_copy(update={"cost": None})], LEADING, 0.02, 0) is None
    assert missed([cost(None, 0.1, None, exact=True)], LEADING, 0.02, 0) is None
    assert missed([cost(None, 0.1, None)], LEADING, 0.02, 0) is not None
