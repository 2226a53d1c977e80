"""How near round trips are to the baseline's of the same block, of trials whose figures are known."""

from __future__ import annotations

import pytest

from hypertare.design.trials import FinishedTrial, PlannedTrial
from hypertare.findings.nearness import of_trials, shifts, with_nearness
from hypertare.findings.series import Rules
from hypertare.protocol.records import Histogram
from hypertare.stats.histograms import SHIFTED
from hypertare.stats.practical import THRESHOLD

BOTH = ("near_share", "near_time")
RULES = Rules("native", 0.95, THRESHOLD, "wall")


def trial(number: int, block: int, platform: str, status: str = "ok") -> FinishedTrial:
    cell = {"workload": "rtt", **({"sut.nic": "e1000"} if platform == "guest" else {})}
    planned = PlannedTrial(number, block, 0, platform, cell)
    return FinishedTrial(planned, status, None, 1.0, {"rtt_p50": 1.0})  # type: ignore[arg-type]


def of(*values: int) -> list[Histogram]:
    return [Histogram(unit="ns", buckets=tuple((value, 1) for value in values))]


TRIALS = [
    *(trial(0, 0, "native"), trial(1, 0, "guest")),
    *(trial(2, 1, "guest"), trial(3, 1, "native")),
    # Of this block the baseline is lost, and of the next one the guest.
    *(trial(4, 2, "native", "failed"), trial(5, 2, "guest")),
    *(trial(6, 3, "native"), trial(7, 3, "guest", "failed")),
]
REPORTED = {
    0: of(*range(1000, 1100)),
    1: of(*range(1050, 1150)),
    2: of(*range(2080, 2180)),
    # Two tasks, as where several work at once.
    3: [*of(*range(2000, 2050)), *of(*range(2050, 2100))],
    4: of(1),
    5: of(2),
    6: of(1),
    7: [Histogram(unit="ns", buckets=())],
}


def test_each_block_has_its_own_limit() -> None:
    reported = of_trials(REPORTED)
    assert 7 not in reported
    found = {one.planned.id: one.values for one in with_nearness(TRIALS, reported, "native", BOTH)}
    # 1094 and 2094 are the baselines' 95 % quantiles.
    # Of 1000 to 1099 the mean is 1049.5 and the deviation 28.866: 1050 to 1078 are near, of 1050 to 1149.
    near_time = sum(range(1050, 1079)) / sum(range(1050, 1150))
    assert found[1] == {
        "rtt_p50": 1.0,
        "near_share": pytest.approx(0.45),
        "near_time": pytest.approx(near_time),
    }
    assert found[2]["near_share"] == pytest.approx(0.15)
    assert all("near_share" not in found[number] for number in (0, 3, 4, 5, 6, 7))


def test_a_run_that_was_asked_for_one_has_that_alone() -> None:
    found = with_nearness(TRIALS, of_trials(REPORTED), "native", ("near_share",))
    assert found[1].values.keys() == {"rtt_p50", "near_share"}


def test_the_shift_is_the_mean_over_blocks() -> None:
    found = list(shifts(TRIALS, of_trials(REPORTED), RULES))
    assert [one.share for one in found] == list(SHIFTED)
    for one in found:
        assert (one.platform, one.cell["sut.nic"], one.baseline, one.n) == (
            *("guest", "e1000", "native", 2),
        )
        # 50 and 80 ns: 65, and t of one degree of freedom times 15.
        assert one.difference == pytest.approx(65e-9)
        assert one.low == pytest.approx((65 - 12.706 * 15) * 1e-9, rel=1e-4)
        assert one.high == pytest.approx((65 + 12.706 * 15) * 1e-9, rel=1e-4)


def test_without_histograms_there_is_nothing() -> None:
    assert with_nearness(TRIALS, {}, "native", BOTH) == TRIALS
    assert list(shifts(TRIALS, {}, RULES)) == []
