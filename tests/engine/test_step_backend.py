"""Asked blocks on benches that are made up: which bench they stand on, numbers, and what fails."""

from __future__ import annotations

import pytest

from hypertare.design.trials import Ask, FinishedTrial
from hypertare.engine.trial_recorder import TrialRecorder as Written
from hypertare.engine.trial_runner import Asking, StepBackend, TrialRunner
from hypertare.study import StudyFile
from tests.engine.test_campaign import ON, TEXT, MadeUp, TrialRecorder

PLAIN = Ask({}, {"n": 1})
MORE_CPUS = Ask({"sut.cpus": 2}, {"n": 2})
NIC = Ask({"sut.nic": "e1000"}, {"n": 3})


def trial_runner(
    machine: MadeUp, recorder: TrialRecorder, platform: str = "guest", first: int | None = None
) -> TrialRunner:
    file = StudyFile(TEXT.replace('"guest"]', '"container", "guest"]'), "probe.toml")
    asking = Asking("build", platform, Written(file, recorder, recorder), ON, 1, first)
    clock = lambda: machine.time  # noqa: E731
    return StepBackend(asking, machine, clock)


def boots(trials: list[FinishedTrial]) -> list[int]:
    return [trial.planned.boot for trial in trials if trial.planned.kind == "measured"]


def test_a_bench_that_boots_is_made_anew_after_its_blocks() -> None:
    machine, recorder = MadeUp(), TrialRecorder()
    with trial_runner(machine, recorder) as lab:
        for _ in range(6):
            lab.block([PLAIN])
        lab.renew()
        lab.block([PLAIN])
    assert boots(recorder.finished) == [0, 0, 0, 0, 1, 1, 2]
    assert sum(trial.planned.kind == "warmup" for trial in recorder.finished) == 3
    assert not machine.up


@pytest.mark.parametrize("platform", ["native", "container"])
def test_where_nothing_boots_one_bench_lasts_until_another_is_needed(platform: str) -> None:
    machine, recorder = MadeUp(), TrialRecorder()
    with trial_runner(machine, recorder, platform) as lab:
        for _ in range(6):
            lab.block([PLAIN])
        lab.renew()
        lab.blocks([[PLAIN], [PLAIN]], apart=True)
        assert boots(recorder.finished) == [0] * 8
        lab.block([MORE_CPUS])
        assert boots(recorder.finished)[8:] == [1]
    assert len(machine.benches) == 2 and not machine.up


def test_a_block_begins_with_the_bench_that_stands() -> None:
    machine, recorder = MadeUp(), TrialRecorder()
    with trial_runner(machine, recorder) as lab:
        answers = lab.blocks([[PLAIN, MORE_CPUS], [PLAIN, MORE_CPUS]])
        assert len(machine.benches) == 3
        first, second = [[a.planned.boot for a in block] for block in answers]
        assert set(first) == {0, 1} and max(first) in second
        lab.blocks([[PLAIN, MORE_CPUS]] * 2, apart=True)
    assert len(machine.benches) == 3 + 4


def test_guests_that_differ_share_a_bench() -> None:
    machine, recorder = MadeUp(), TrialRecorder()
    with trial_runner(machine, recorder) as lab:
        answers = lab.block([PLAIN, NIC])
    assert [a.planned.cell["n"] for a in answers] == [1, 3]
    assert len(machine.benches) == 1


def test_a_bench_that_cannot_be_made_is_an_answer() -> None:
    machine, recorder = MadeUp(), TrialRecorder()
    machine.bench_errors = [("it booted too slowly", "guest1")]
    with trial_runner(machine, recorder) as lab:
        failed, good = lab.block([PLAIN]), lab.block([PLAIN])
    assert [a.status for a in (*failed, *good)] == ["failed", "ok"]
    assert failed[0].error == "it booted too slowly"


def test_a_lost_node_takes_the_bench_with_it() -> None:
    machine = MadeUp(fate=lambda node, trial: "lost: panicked" if trial == 2 else None)
    recorder = TrialRecorder()
    with trial_runner(machine, recorder) as lab:
        answers = [lab.block([PLAIN])[0] for _ in range(3)]
    assert [a.status for a in answers] == ["ok", "failed", "ok"]
    assert [a.planned.boot for a in answers] == [0, 0, 1]


def test_what_an_interrupted_run_left_is_not_measured_again() -> None:
    """A block that was begun and not ended is measured anew, under another number."""
    whole = TrialRecorder()
    with trial_runner(MadeUp(), whole) as lab:
        for _ in range(3):
            lab.block([PLAIN, NIC])
    machine, rest = MadeUp(), TrialRecorder(whole.finished[:-1])
    with trial_runner(machine, rest) as lab:
        resumed = [lab.block([PLAIN, NIC]) for _ in range(3)]
    assert [a.planned.id for a in resumed[0]] < [a.planned.id for a in resumed[2]]
    assert sum(trial.planned.kind == "measured" for trial in rest.finished) == 2
    assert {a.planned.block for a in resumed[2]}.isdisjoint(
        trial.planned.block for trial in whole.finished
    )
    assert len({t.planned.id for t in (*rest.earlier, *rest.finished)}) == len(rest.earlier) + len(
        rest.finished
    )


def test_what_is_asked_beside_the_cells_is_numbered_from_where_it_is_reported() -> None:
    recorder = TrialRecorder()
    with trial_runner(MadeUp(), recorder, first=5000) as lab:
        lab.block([PLAIN], "search")
    assert [trial.planned.id for trial in recorder.finished] == [5000, 5001]
    assert [trial.planned.kind for trial in recorder.finished] == ["warmup", "search"]
