from __future__ import annotations

import pytest

from hypertare.design.trials import FinishedTrial, Kind, PlannedTrial
from hypertare.findings.counted_trials import counting, of_nothing_measured, with_polls


def trial(
    number: int, kind: Kind, boot: int = 0, weight: int = 64, **values: float
) -> FinishedTrial:
    cell = {"workload": "load", "knobs.napi_weight": weight}
    planned = PlannedTrial(number, number, boot, "guest", cell, kind)
    return FinishedTrial(planned, "ok", None, 1.0, values)


def test_what_only_a_warm_up_counted_stands_beside_the_first_trial_of_its_cell_and_boot() -> None:
    trials = [
        trial(1, "warmup", goodput=1e6, poll_rate=900.0, packets_per_poll=2.0),
        trial(2, "measured", goodput=2e6),
        trial(3, "measured", goodput=3e6),
        trial(4, "measured", weight=1, goodput=4e6),
        trial(5, "measured", boot=1, goodput=5e6),
    ]
    first = {"goodput": 2e6, "poll_rate": 900.0, "packets_per_poll": 2.0}
    found = with_polls(trials)
    assert [one.values for one in found if one.counts] == [
        first,
        {"goodput": 3e6},
        {"goodput": 4e6},
        {"goodput": 5e6},
    ]


def test_what_was_counted_in_the_trial_itself_is_its_own() -> None:
    trials = [trial(1, "warmup", poll_rate=900.0), trial(2, "measured", poll_rate=800.0)]
    assert with_polls(trials) == trials


@pytest.mark.parametrize(("kinds", "named"), [("wm", ()), ("w", ("load",)), ("m", ())])
def test_warm_ups_count_where_nothing_else_was_measured(kinds: str, named: tuple[str, ...]) -> None:
    of: dict[str, Kind] = {"w": "warmup", "m": "measured"}
    trials = [trial(number, of[kind], goodput=1e6) for number, kind in enumerate(kinds)]
    assert of_nothing_measured(trials) == named
    assert sum(one.counts for one in counting(trials, named)) == 1
