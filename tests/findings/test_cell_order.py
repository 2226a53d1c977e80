"""Tables stand in the order of the study, whatever order its trials ran in."""

from __future__ import annotations

from hypertare.design.trials import FinishedTrial, PlannedTrial
from hypertare.findings.counted_trials import in_order

SETTINGS = {
    "workloads": {
        "transmit": {},
        "load": {"factors": {"workloads.load.rate": ["1M", "2M"], "sut.guests": [1]}},
    },
    "factors": {"sut.guests": [2, 1], "knobs.weight": [256, 64]},
}


def trial(number: int, platform: str = "native", **levels: object) -> FinishedTrial:
    cell = {name.replace("__", "."): level for name, level in levels.items()}
    return FinishedTrial(PlannedTrial(number, 0, 0, platform, cell), "ok", None, 0.0)


def ids(*trials: FinishedTrial) -> list[int]:
    found = in_order(trials, SETTINGS, ("native", "xen"))
    return [one.planned.id for one in found]


def test_workloads_then_factors_then_platforms_as_the_study_has_them() -> None:
    assert ids(
        trial(1, workload="load", workloads__load__rate="2M"),
        trial(2, workload="load", workloads__load__rate="1M"),
        trial(3, "xen", workload="transmit", sut__guests=1, knobs__weight=64),
        trial(4, workload="transmit", sut__guests=1, knobs__weight=64),
        trial(5, workload="transmit", sut__guests=1, knobs__weight=256),
        trial(6, workload="transmit", sut__guests=2, knobs__weight=64),
    ) == [6, 5, 4, 3, 2, 1]


def test_trials_of_a_cell_stay_as_they_were_run_and_so_does_what_no_study_names() -> None:
    assert ids(
        trial(3, workload="transmit"), trial(1, workload="transmit"), trial(2, workload="x")
    ) == [2, 3, 1]
