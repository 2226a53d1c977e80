from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hypertare.stats import ratio
from hypertare.stats.boots import Running, mean
from hypertare.stats.interval import of_mean
from hypertare.stats.stop import Decision, StopRule
from tests.stats import coverage
from tests.stats.coverage import decide

RULE = {"precision": 0.02, "min_trials": 5, "max_trials": 30}
LOGS = st.lists(st.floats(-2, 2), min_size=2, max_size=30)


@given(LOGS)
def test_half_width_is_that_of_the_cost(logs: list[float]) -> None:
    seen = of_mean(logs)
    width = coverage.half_widths(np.array(logs))[-1]
    if seen.low is None or seen.high is None:
        assert width == pytest.approx(0, abs=1e-7)
        return
    low, high = ratio.cost_bounds(seen.low, seen.high, "lower")
    larger = max(1.0, float(np.exp(seen.estimate)))
    assert width == pytest.approx((high - low) / 2 / larger, rel=1e-6, abs=1e-7)


def test_same_cost_seen_from_either_side() -> None:
    logs = np.array([0.50, 0.52, 0.49, 0.51, 0.53])
    slower = coverage.half_widths(logs)[-1]
    tenfold = coverage.half_widths(logs + np.log(10))[-1]
    assert slower == pytest.approx(tenfold)


def test_quiet_cells_end_at_the_least() -> None:
    logs = [0.1, 0.1001, 0.0999, 0.1002, 0.1]
    assert decide(logs[:4], **RULE) is Decision.CONTINUE
    assert decide(logs, **RULE) is Decision.PRECISE
    assert decide([0.3] * 5, **RULE) is Decision.PRECISE


def test_a_narrow_look_is_confirmed() -> None:
    # Half-width 1.5 %: below the precision, above half of it.
    logs = [0.0121 * sign for sign in (1, -1, 1, -1, 0)]
    width = coverage.half_widths(np.array(logs))[-1]
    assert 0.01 < width < 0.02
    assert decide(logs, **RULE) is Decision.CONTINUE
    assert decide([*logs, 0.012, -0.012], **RULE) is Decision.CONTINUE
    assert decide([*logs, 0.012, -0.012, 0.0], **RULE) is Decision.PRECISE


def test_limit() -> None:
    noisy = [0.5, -0.5] * 15
    assert decide(noisy[:29], **RULE) is Decision.CONTINUE
    assert decide(noisy, **RULE) is Decision.LIMIT
    assert decide([], **RULE) is Decision.CONTINUE
    assert decide([0.1], precision=0.5, min_trials=1, max_trials=1) is Decision.LIMIT


@given(LOGS, st.floats(0.001, 0.2))
def test_coarser_precision_never_asks_for_more(logs: list[float], precision: float) -> None:
    fine = decide(logs, precision=precision, min_trials=2, max_trials=1000)
    coarse = decide(logs, precision=2.1 * precision, min_trials=2, max_trials=1000)
    if fine is Decision.PRECISE:
        assert coarse is Decision.PRECISE


def test_boots_that_differ_ask_for_more() -> None:
    rng = np.random.default_rng(4)
    logs = np.repeat([0.0, 0.1, 0.2], 5) + 0.001 * rng.standard_normal(15)
    within = logs - np.repeat([0.0, 0.1, 0.2], 5)
    boots = np.repeat([0, 1, 2], 5).tolist()
    assert decide(within, boots=boots, **RULE) is Decision.PRECISE
    assert decide(logs, boots=boots, **RULE) is Decision.CONTINUE
    assert decide(within[:10], **RULE) is Decision.PRECISE
    assert decide(within[:10], boots=boots[:10], min_boots=3, **RULE) is Decision.CONTINUE
    assert decide(within[:10], boots=boots[:10], min_boots=2, **RULE) is Decision.PRECISE
    assert decide(within, boots=[0] * 15, **RULE) is decide(within, **RULE)


@given(st.lists(st.tuples(st.floats(-3, 3), st.integers(0, 4)), min_size=1, max_size=40))
def test_a_growing_mean_is_the_mean(series: list[tuple[float, int]]) -> None:
    running = Running()
    for count, (value, boot) in enumerate(series, 1):
        running.add(value, boot)
        values, where = zip(*series[:count], strict=True)
        seen = mean(values, where)
        estimate, half = running.mean()
        wanted = seen.interval
        assert running.boots == seen.boots
        if count == 1:
            assert (estimate, half) == (value, math.inf)
        elif wanted.low is None or wanted.high is None:
            assert (estimate, half) == (wanted.estimate, 0.0)
        else:
            width = (wanted.high - wanted.low) / 2
            close = (
                pytest.approx(wanted.estimate, abs=1e-6),
                pytest.approx(width, rel=1e-4, abs=1e-6),
            )
            assert (estimate, half) == close or _at_the_edge(values, where)


def _at_the_edge(values: tuple[float, ...], where: tuple[int, ...]) -> bool:
    """Whether boots differ as much as trials do, to the last digits: either interval is right."""
    boots = [[v for v, w in zip(values, where, strict=True) if w == boot] for boot in set(where)]
    grand = sum(values) / len(values)
    between = sum(len(b) * (sum(b) / len(b) - grand) ** 2 for b in boots)
    within = sum((v - sum(b) / len(b)) ** 2 for b in boots for v in b)
    ratio = between * (len(values) - len(boots))
    return ratio == pytest.approx(within * (len(boots) - 1), rel=1e-6, abs=1e-12)


@pytest.mark.parametrize("size", [1e-9, 1.0, 1e9])
def test_differences_are_weighed_against_the_largest_value(size: float) -> None:
    quiet = StopRule(scale="difference", **RULE)
    noisy = StopRule(scale="difference", **RULE)
    for block in range(5):
        sign = -1 if block % 2 else 1
        quiet.add(0.001 * size * sign, largest=size)
        noisy.add(0.1 * size * sign, largest=size)
    assert quiet.decide() is Decision.PRECISE
    assert noisy.decide() is Decision.CONTINUE
