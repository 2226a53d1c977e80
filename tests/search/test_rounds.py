"""Searches side by side: each as if it were alone, also when the run was interrupted."""

from __future__ import annotations

import pytest

from hypertare.design.trials import FinishedTrial
from hypertare.runs.summary import LossFreeRate
from hypertare.search.plan import SearchPlan, plan
from hypertare.search.rounds import Rounds, loss_free
from hypertare.study import StudyFile
from tests.search.made_up import MadeUpLab, Path, livelock, noisy, up_to

TEXT = """
name = "weights"
question = "How much does each weight take?"
[sut]
platforms = ["native", "container"]
[workloads.udp]
type = "stream"
protocol = "udp"
[factors]
"knobs.napi_weight" = [1, 64]
"workloads.udp.rate" = ["10M", "20M"]
[search]
workload = "udp"
over = ["knobs.napi_weight"]
platforms = ["native"]
"""
FILE = StudyFile(TEXT, "weights.toml")
PATHS: dict[object, Path] = {1: Path(noisy(4e7, 0.05)), 64: Path(livelock(3e8), sender=2e9)}


def planned(file: StudyFile = FILE) -> SearchPlan:
    found = plan(file, file.study())
    assert found is not None
    return found


def found(trials: list[FinishedTrial], file: StudyFile = FILE) -> list[LossFreeRate]:
    return list(loss_free(file, trials))


def run(paths: dict[object, Path], known: list[FinishedTrial] | None = None) -> MadeUpLab:
    lab = MadeUpLab(paths)
    Rounds(planned(), "native", known or []).run(lab)
    return lab


def test_every_setting_is_searched_and_found() -> None:
    rates = found(run(PATHS).journal)
    assert [(one.cell["knobs.napi_weight"], one.goal) for one in rates] == [
        (1, 0.0),
        (1, 0.005),
        (64, 0.0),
        (64, 0.005),
    ]
    assert all(one.cell["workload"] == "udp" and one.state == "found" for one in rates)
    lower = [one.lower.rate for one in rates if one.lower and one.goal == 0]
    assert lower[0] == pytest.approx(4e7, rel=0.15) and lower[1] == pytest.approx(3e8, rel=0.02)
    assert {one.unit for one in rates} == {"b/s"}


def test_a_search_does_not_depend_on_those_beside_it() -> None:
    both = found(run(PATHS).journal)
    others = found(run({**PATHS, 64: Path(up_to(9e7))}).journal)
    assert both[:2] == others[:2] and both[2:] != others[2:]


def test_rounds_hold_one_trial_of_every_open_search() -> None:
    lab = run(PATHS)
    assert lab.blocks[0] == 2 and set(lab.blocks) <= {1, 2}
    assert len(lab.journal) == sum(lab.blocks)
    assert lab.left_s() == 0.0


@pytest.mark.parametrize("after", range(0, 24, 3))
def test_an_interrupted_run_goes_on_to_the_same_result(after: int) -> None:
    whole = run(PATHS).journal
    lab = MadeUpLab(PATHS, interrupt=after)
    with pytest.raises(KeyboardInterrupt):
        Rounds(planned(), "native", []).run(lab)
    assert len(lab.journal) == after < len(whole)
    rest = run(PATHS, lab.journal).journal
    assert found([*lab.journal, *rest]) == found(whole)
    assert len(lab.journal) + len(rest) == len(whole)


def test_before_its_end_a_search_says_that_it_is_open() -> None:
    trials = run(PATHS).journal[:3]
    assert {one.state for one in found(trials)} == {"open"}
    assert found([]) == []


def test_a_setting_that_fails_ends_alone() -> None:
    def refuse(trial: object) -> str | None:
        cell = trial.planned.cell if isinstance(trial, FinishedTrial) else trial.cell  # type: ignore[attr-defined]
        return "no such knob" if cell["knobs.napi_weight"] == 1 else None

    lab = MadeUpLab(PATHS, fails=refuse)
    Rounds(planned(), "native", []).run(lab)
    rates = found(lab.journal)
    assert [one.state for one in rates] == ["failed", "failed", "found", "found"]
    assert rates[0].reason == "no such knob" and rates[0].trials == 3


def test_virtual_time_marks_the_unit() -> None:
    text = TEXT.replace("[sut]", "[sut]\ncpus = 1").replace(
        "name =", 'machine = "emulated"\nname ='
    )
    file = StudyFile(text, "weights.toml")
    lab = MadeUpLab(PATHS)
    Rounds(planned(file), "native", []).run(lab)
    assert {one.unit for one in found(lab.journal, file)} == {"b/s (virtual)"}
