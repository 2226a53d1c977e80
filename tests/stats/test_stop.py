from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hypertare.stats import ratio, stop
from hypertare.stats.interval import of_mean
from hypertare.stats.stop import Decision, decide

RULE = {"precision": 0.02, "min_trials": 5, "max_trials": 30}
LOGS = st.lists(st.floats(-2, 2), min_size=2, max_size=30)


@given(LOGS)
def test_half_width_is_that_of_the_cost(logs: list[float]) -> None:
    seen = of_mean(logs)
    width = stop.half_widths(np.array(logs))[-1]
    if seen.low is None or seen.high is None:
        assert width == pytest.approx(0, abs=1e-7)
        return
    low, high = ratio.cost_bounds(seen.low, seen.high, "lower")
    larger = max(1.0, float(np.exp(seen.estimate)))
    assert width == pytest.approx((high - low) / 2 / larger, rel=1e-6, abs=1e-7)


def test_same_cost_seen_from_either_side() -> None:
    logs = np.array([0.50, 0.52, 0.49, 0.51, 0.53])
    slower = stop.half_widths(logs)[-1]
    tenfold = stop.half_widths(logs + np.log(10))[-1]
    assert slower == pytest.approx(tenfold)


def test_quiet_cells_end_at_the_least() -> None:
    logs = [0.1, 0.1001, 0.0999, 0.1002, 0.1]
    assert decide(logs[:4], **RULE) is Decision.CONTINUE
    assert decide(logs, **RULE) is Decision.PRECISE
    assert decide([0.3] * 5, **RULE) is Decision.PRECISE


def test_a_narrow_look_is_confirmed() -> None:
    # Half-width 1.5 %: below the precision, above half of it.
    logs = [0.0121 * sign for sign in (1, -1, 1, -1, 0)]
    width = stop.half_widths(np.array(logs))[-1]
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
    with pytest.raises(ValueError, match="15 ratios of 2 boots"):
        decide(within, boots=[0, 1], **RULE)
