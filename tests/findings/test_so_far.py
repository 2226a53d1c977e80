"""Interim results: the same figures as the estimates' at the end."""

from __future__ import annotations

import pytest

from hypertare.findings.estimates import estimate
from hypertare.findings.progress import SoFar
from tests.made_trials import RESPONSES, blocks, noisy, trial

HEADLINE = {"build": "elapsed"}


def test_at_the_end_it_is_the_estimate() -> None:
    made = blocks({"native": noisy(8, 8, seed=1), "guest": noisy(200, 8, 0.1, seed=2)})
    so_far = SoFar("native", HEADLINE)
    reported = [found for one in made if (found := so_far.add(one)) is not None]
    assert len(reported) == 7, "from the second block on"
    (cost,) = [e for e in estimate(made, RESPONSES).estimates if e.platform == "guest"]
    last = reported[-1]
    assert last.platform == "guest"
    assert last.change == pytest.approx(cost.cost)
    assert (last.low, last.high) == (pytest.approx(cost.cost_low), pytest.approx(cost.cost_high))


def test_the_order_in_a_block_does_not_matter() -> None:
    made = blocks({"guest": [2.0, 2.1, 2.2], "native": [1.0, 1.0, 1.0]})
    so_far = SoFar("native", HEADLINE)
    reported = [so_far.add(one) for one in made]
    assert reported[-1] is not None and reported[-2] is None


def test_what_has_no_ratio_or_failed_says_nothing() -> None:
    so_far = SoFar("native", HEADLINE)
    for number in range(3):
        assert so_far.add(trial("native", number, {"loss": 0.0})) is None
        assert so_far.add(trial("guest", number, None)) is None
        assert so_far.add(trial("guest", number, {"elapsed": 0.0})) is None
    assert so_far.add(trial("native", 9, {"elapsed": 1.0}, kind="warmup")) is None
