"""Campaigns on a machine that is made up: order, stopping, failures, resuming."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence, Set
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from hypertare.design.design import make
from hypertare.design.planner import MachineResources
from hypertare.design.trials import FinishedTrial
from hypertare.engine.campaign import Campaign
from hypertare.engine.cell_tracker import MAX_FAILURES
from hypertare.engine.expected import expected_run_s
from hypertare.engine.prepare import Prepared, RunOptions
from hypertare.engine.session import Session
from hypertare.machines.steps import AgentError
from hypertare.protocol import plan
from hypertare.protocol.phase import PHASE, REACH
from hypertare.protocol.records import (
    BenchReady,
    Console,
    Log,
    ProbeValues,
    Record,
    TaskResult,
    Teardown,
    TrialEnd,
)
from hypertare.study import StudyFile

TEXT = """
name = "probe"
question = "?"
[sut]
platforms = ["native", "guest"]
[workloads.build]
type = "command"
command = "make"
[design]
warmup = 1
min_trials = 5
max_trials = 12
blocks_per_boot = 4
min_boots = 1
precision = "5%"
"""
IMAGE = SimpleNamespace(
    kernel=Path("/k"), initramfs=Path("/i"), modules=frozenset({"hypertare_napi"})
)
ON = MachineResources(
    (0, 1),
    "tcg",
    {("debian", "guest"): IMAGE},
    {},
    Path("/w"),
)


class MadeUp:
    """A machine whose guest takes twice as long; `fate` may say otherwise for a trial on a node."""

    def __init__(self, noise: float = 0.005, fate: Callable[[str, int], str | None] | None = None):
        self.random = random.Random(1)
        self.noise = noise
        self.fate = fate or (lambda node, trial: None)
        self.time = 0.0
        self.slower = {"host": 1.0}
        self.benches: list[plan.Bench] = []
        self.trials: list[tuple[str, int]] = []
        self.up = False
        self.left_alone: list[Set[int]] = []
        self.bench_errors: list[tuple[str, str]] = []

    def make_bench(self, bench: plan.Bench, limit_s: float) -> list[Record]:
        assert not self.up, "a bench is made while another is up"
        self.benches.append(bench)
        self.time += 3
        if self.bench_errors:
            error, node = self.bench_errors.pop(0)
            console = Console(node=node, lines=("it panicked",))
            return [console, BenchReady(bench="b", seconds_s=3, error=error, node=node)]
        self.up = True
        return [BenchReady(bench="b", seconds_s=3)]

    def run(self, trial: plan.Trial) -> list[Record]:
        assert self.up
        (task,) = trial.phases[0].tasks
        self.trials.append((task.node, trial.id))
        fate = self.fate(task.node, trial.id)
        seconds = self.slower.get(task.node, 2) * self.random.lognormvariate(0, self.noise)
        self.time += seconds
        if fate is not None:
            lost = task.node if fate.startswith("lost") else None
            error = f"task {task.id} on {task.node} failed: {fate}"
            phase = REACH if fate.startswith("unanswered") else PHASE
            reported = TaskResult(
                node=task.node, trial=trial.id, phase=phase, task=task.id, error=fate
            )
            return [reported, self._end(trial, seconds, error, lost)]
        result = TaskResult(
            node=task.node, trial=trial.id, phase="measure", task="command",
            values={"elapsed_s": seconds, "user_s": seconds / 2}, purpose=task.purpose,
        )  # fmt: skip
        probe = ProbeValues(
            node="host", trial=trial.id, phase="measure", probe="stat", elapsed_s=seconds,
            values={"busy_s": seconds},
        )  # fmt: skip
        return [result, probe, self._end(trial, seconds, None, None)]

    def _end(
        self, trial: plan.Trial, seconds: float, error: str | None, lost: str | None
    ) -> TrialEnd:
        return TrialEnd(trial=trial.id, t_s=self.time, elapsed_s=seconds, error=error, lost=lost)

    proc: Path | None = None

    def stand_aside(self, cpus: Set[int]) -> None:
        self.left_alone.append(cpus)

    def processes(self) -> tuple[int, ...]:
        return ()

    def teardown(self) -> list[Record]:
        self.up = False
        return [Log(node="", level="warning", text="slow to go"), Teardown(seconds_s=0.1)]


class TrialRecorder:
    """Journal and observer in memory."""

    def __init__(self, trials: Sequence[FinishedTrial] = ()) -> None:
        self.earlier = list(trials)
        self.finished: list[FinishedTrial] = []
        self.events: list[str] = []
        self.remaining: list[float] = []

    def append(self, finished: FinishedTrial, records: Sequence[Record]) -> None:
        self.finished.append(finished)

    def add_bench(self, boot: int, records: Sequence[Record]) -> None:
        pass

    def add_other_programs(self, others: object) -> None:
        pass

    def add_event(self, text: str) -> None:
        self.events.append(text)

    def trials(self) -> list[FinishedTrial]:
        return self.earlier

    def bench(self, boot: int, plot: object) -> None:
        pass

    def begin(self, planned: object) -> None:
        pass

    def end(self, finished: FinishedTrial, remaining_s: float) -> None:
        self.remaining.append(remaining_s)

    def warn(self, text: str) -> None:
        pass


def campaign(
    machine: MadeUp, recorder: TrialRecorder, text: str = TEXT, further: Sequence[MadeUp] = ()
) -> Campaign:
    file = StudyFile(text, "probe.toml")
    study = file.study()
    prepared = Prepared(file, study, make(study, 1), ON.cpus, None)
    on = replace(ON, further=(ON,) * len(further))
    session = Session(prepared, on, recorder, recorder, RunOptions())
    return Campaign(session, machine, further, clock=lambda: machine.time)


def measured(recorder: TrialRecorder, platform: str) -> list[FinishedTrial]:
    return [t for t in recorder.finished if t.planned.platform == platform and t.counts]


def test_a_quiet_machine_is_soon_precise() -> None:
    machine, recorder = MadeUp(), TrialRecorder()
    assert campaign(machine, recorder).run()
    assert 5 <= len(measured(recorder, "native")) == len(measured(recorder, "guest")) <= 8
    assert not machine.up


def test_the_controller_leaves_alone_the_cpus_on_which_is_measured() -> None:
    machine = MadeUp()
    campaign(machine, TrialRecorder()).run()
    (bench, *_) = machine.benches
    measured_on = {cpu for node in bench.nodes if node.name != "peer" for cpu in node.cpus}
    assert machine.left_alone[0] == measured_on != set()


def test_plans_of_a_cell_differ_in_their_numbers_alone() -> None:
    machine = MadeUp()
    reported: dict[str, set[str]] = {}
    run = machine.run

    def heard(trial: plan.Trial) -> list[Record]:
        (task,) = trial.phases[0].tasks
        rest = trial.model_copy(update={"id": 0}).model_dump_json()
        reported.setdefault(task.node, set()).add(rest)
        return run(trial)

    machine.run = heard  # type: ignore[method-assign]
    campaign(machine, TrialRecorder()).run()
    numbers = [trial for _, trial in machine.trials]
    assert len(set(numbers)) == len(numbers) > 10
    # A guest's warm-up knows that it is one.
    assert {node: len(plans) for node, plans in reported.items()} == {"host": 2, "guest1": 2}


def test_a_noisy_one_goes_to_the_limit() -> None:
    machine, recorder = MadeUp(noise=0.5), TrialRecorder()
    assert campaign(machine, recorder).run()
    assert len(measured(recorder, "guest")) == 12


def test_every_boot_warms_up_and_boots_are_replicated() -> None:
    machine, recorder = MadeUp(noise=0.5), TrialRecorder()
    campaign(machine, recorder).run()
    assert len(machine.benches) == 3
    warm = [t.planned.boot for t in recorder.finished if t.planned.kind == "warmup"]
    assert sorted(warm) == [0, 0, 1, 1, 2, 2]
    ids = [t.planned.id for t in recorder.finished]
    assert ids == list(range(len(ids)))


def test_a_round_of_many_cells_is_cut_into_boots() -> None:
    """Three commands of two platforms and two blocks: a boot that may have eight trials has two of them."""
    text = TEXT.replace("blocks_per_boot = 4", "blocks_per_boot = 2\ntrials_per_boot = 8")
    more = "".join(f'[workloads.w{n}]\ntype = "command"\ncommand = "true"\n' for n in (1, 2))
    machine, recorder = MadeUp(), TrialRecorder()
    assert campaign(machine, recorder, text.replace("[design]", f"{more}[design]")).run()
    by_boot: dict[int, list[str]] = {}
    for trial in recorder.finished:
        if trial.planned.kind == "measured":
            by_boot.setdefault(trial.planned.boot, []).append(trial.planned.workload)
    assert len(by_boot) == len(machine.benches) > 3
    for workloads in by_boot.values():
        assert len(set(workloads)) <= 2 and len(workloads) <= 8
    counts = {
        name: sum(found.count(name) for found in by_boot.values()) for name in ("build", "w1")
    }
    assert min(counts.values()) >= 2 * 5


def test_blocks_hold_both_platforms_in_both_orders() -> None:
    machine, recorder = MadeUp(noise=0.5), TrialRecorder()
    campaign(machine, recorder).run()
    orders: dict[int, list[str]] = {}
    for trial in recorder.finished:
        orders.setdefault(trial.planned.block, []).append(trial.planned.platform)
    assert {tuple(order) for order in orders.values()} == {
        ("native", "guest"),
        ("guest", "native"),
    }


def test_time_runs_out_between_blocks() -> None:
    machine, recorder = MadeUp(noise=0.5), TrialRecorder()
    text = TEXT.replace('precision = "5%"', 'precision = "5%"\ntime_limit = "20s"')
    assert not campaign(machine, recorder, text).run()
    assert machine.time < 25
    assert measured(recorder, "guest")
    assert not machine.up


def test_the_remaining_time_falls_to_nothing() -> None:
    machine, recorder = MadeUp(noise=0.5), TrialRecorder()
    campaign(machine, recorder).run()
    assert recorder.remaining[3] > recorder.remaining[-2] >= 0


def test_a_single_failure_is_kept_out_and_the_rest_goes_on() -> None:
    machine, recorder = (
        MadeUp(fate=lambda node, trial: "boom" if trial == 5 else None),
        TrialRecorder(),
    )
    assert campaign(machine, recorder).run()
    (failed,) = [t for t in recorder.finished if t.status == "failed"]
    assert "boom" in str(failed.error)
    assert failed.values == {}
    assert len(machine.benches) == 2


def test_a_platform_that_always_fails_is_given_up() -> None:
    """The reason stands with its trials: whoever reads both would read it twice."""
    machine = MadeUp(fate=lambda node, trial: "boom" if node == "guest1" else None)
    recorder = TrialRecorder()
    assert campaign(machine, recorder).run()
    assert len([t for t in recorder.finished if t.status == "failed"]) == MAX_FAILURES
    assert all("boom" in str(t.error) for t in recorder.finished if t.status == "failed")
    (event,) = [event for event in recorder.events if "given up" in event]
    assert "boom" not in event


def test_what_fails_natively_at_once_is_left_out() -> None:
    machine, recorder = (
        MadeUp(fate=lambda node, trial: "exit status 2" if node == "host" else None),
        TrialRecorder(),
    )
    assert campaign(machine, recorder).run()
    assert len(recorder.finished) <= 2
    assert {trial.planned.kind for trial in recorder.finished} == {"warmup"}
    # Its failure says it.
    assert not [event for event in recorder.events if "left out" in event or "natively" in event]


@pytest.mark.parametrize("fate", ["lost: panicked", "unanswered: none of 2 requests"])
def test_a_lost_node_or_network_makes_a_new_bench(fate: str) -> None:
    machine = MadeUp(fate=lambda node, trial: fate if trial == 4 else None)
    recorder = TrialRecorder()
    assert campaign(machine, recorder).run()
    boots = {trial.planned.id: trial.planned.boot for trial in recorder.finished}
    assert (boots[4], boots[5]) == (0, 1)
    assert len(measured(recorder, "guest")) >= 5


def test_a_guest_that_never_boots_is_given_up_and_the_others_go_on() -> None:
    text = TEXT.replace('["native", "guest"]', '["native", "container", "guest"]')
    machine, recorder = MadeUp(), TrialRecorder()
    machine.bench_errors = [("guest2 booted too slowly", "guest2")] * MAX_FAILURES
    assert campaign(machine, recorder, text).run()
    failed = [t for t in recorder.finished if t.status == "failed"]
    assert {t.planned.platform for t in failed} == {"guest"}
    assert failed[0].console == ("it panicked",)
    assert len(measured(recorder, "container")) >= 5
    assert [node.name for node in machine.benches[-1].nodes] == ["host", "container1"]


def test_a_resumed_run_goes_on_where_it_stopped() -> None:
    first, recorder = MadeUp(noise=0.5), TrialRecorder()
    text = TEXT.replace('precision = "5%"', 'precision = "5%"\ntime_limit = "20s"')
    campaign(first, recorder, text).run()
    before = len(measured(recorder, "guest"))
    rest = TrialRecorder(recorder.finished)
    assert campaign(MadeUp(noise=0.5), rest).run()
    assert before + len(measured(rest, "guest")) == 12
    assert min(t.planned.id for t in rest.finished) > max(t.planned.id for t in recorder.finished)
    assert min(t.planned.block for t in rest.finished) > max(
        t.planned.block for t in recorder.finished
    )


def test_a_finished_run_has_nothing_to_resume() -> None:
    machine, recorder = MadeUp(), TrialRecorder()
    campaign(machine, recorder).run()
    again = MadeUp()
    assert campaign(again, TrialRecorder(recorder.finished)).run()
    assert not again.benches


def test_expected_time_counts_boots_and_warm_ups() -> None:
    study = StudyFile(TEXT.replace('"make"', '"make"\nexpected = "1s"'), "probe.toml").study()
    # 8 blocks and 2 warm-ups of 2 trials of 1.3 s, and 2 boots of 6 s
    assert expected_run_s(study, make(study, 1), 8) == pytest.approx(10 * 2 * 1.3 + 12)


def test_where_nothing_boots_one_bench_lasts_to_the_end() -> None:
    text = TEXT.replace('["native", "guest"]', '["native", "container"]')
    machine, recorder = MadeUp(noise=0.5), TrialRecorder()
    assert campaign(machine, recorder, text).run()
    assert len(machine.benches) == 1
    assert len(measured(recorder, "container")) == 12
    assert sum(t.planned.kind == "warmup" for t in recorder.finished) == 2
    # And boots that there are none of are not waited for.
    quick, few = MadeUp(), TrialRecorder()
    assert campaign(quick, few, text.replace("min_boots = 1", "min_boots = 9")).run()
    assert len(measured(few, "container")) < 12


def test_what_is_known_well_enough_rests() -> None:
    """A guest of 25 times is known to a fifth of that long before a container is to 5 %: it is booted no
    more, and the run goes on without it. A resumed run remembers.
    """
    text = TEXT.replace('["native", "guest"]', '["native", "container", "guest"]')
    text = text.replace('precision = "5%"', 'precision = "2%"\nof_cost = "20%"')
    text = text.replace("blocks_per_boot = 4", "blocks_per_boot = 2")
    machine, recorder = MadeUp(noise=0.06), TrialRecorder()
    machine.slower.update(container1=1.0, guest2=25.0)
    assert campaign(machine, recorder, text).run()
    guests, containers = measured(recorder, "guest"), measured(recorder, "container")
    assert 5 <= len(guests) < 12 == len(containers) == len(measured(recorder, "native"))
    assert [node.name for node in machine.benches[-1].nodes] == ["host", "container1"]
    last_guest = max(trial.planned.block for trial in guests)
    later = TrialRecorder(
        [trial for trial in recorder.finished if trial.planned.block <= last_guest]
    )
    again = MadeUp(noise=0.06)
    assert campaign(again, later, text).run()
    assert measured(later, "guest") == []
    assert len(measured(later, "container")) > 0


def test_noise_of_the_machine_is_precise_enough_where_the_study_says_so() -> None:
    noisy, recorder = MadeUp(noise=0.3), TrialRecorder()
    assert campaign(noisy, recorder, TEXT.replace('precision = "5%"', 'of_noise = "100%"')).run()
    assert 5 <= len(measured(recorder, "guest")) < 12


def test_a_baseline_that_is_alone_is_measured() -> None:
    machine, recorder = MadeUp(), TrialRecorder()
    alone = TEXT.replace('["native", "guest"]', '["native"]')
    assert campaign(machine, recorder, alone).run()
    assert 5 <= len(measured(recorder, "native")) <= 12
    # A command that fails natively is left out at its first warm-up, alone or not.
    failing = TrialRecorder()
    assert campaign(MadeUp(fate=lambda node, trial: "no"), failing, alone).run()
    assert [trial.status for trial in failing.finished] == ["failed"]


NATIVE = TEXT.replace('["native", "guest"]', '["native", "container"]')


@pytest.mark.parametrize("text", [TEXT, NATIVE], ids=["boots", "boots nothing"])
def test_several_hosts_have_boots_by_turns(text: str) -> None:
    first, second, recorder = MadeUp(noise=0.5), MadeUp(noise=0.5), TrialRecorder()
    assert campaign(first, recorder, text, [second]).run()
    assert (len(first.benches), len(second.benches)) == (2, 1)
    on = {trial for _, trial in second.trials}
    for trial in recorder.finished:
        assert (trial.planned.id in on) == (trial.planned.boot % 2 == 1)
    assert not first.up and not second.up


def test_precise_is_a_cell_that_every_host_has_measured() -> None:
    machines, recorder = [MadeUp(noise=0.0001) for _ in range(3)], TrialRecorder()
    text = NATIVE.replace("min_trials = 5", "min_trials = 4")
    assert campaign(machines[0], recorder, text, machines[1:]).run()
    assert [len(one.benches) for one in machines] == [1, 1, 1]


def test_a_host_that_is_lost_is_missed_and_the_others_go_on() -> None:
    def gone(node: str, trial: int) -> None:
        raise AgentError("the agent at ssh lab2 ended: Connection reset")

    first, second, recorder = MadeUp(noise=0.5), MadeUp(fate=gone), TrialRecorder()
    assert campaign(first, recorder, further=[second]).run()
    assert {trial.planned.boot % 2 for trial in recorder.finished} == {0}
    assert len(measured(recorder, "guest")) == 12
    assert any("Connection reset" in event for event in recorder.events)


def test_a_run_whose_hosts_are_all_lost_ends_with_the_reason() -> None:
    def gone(node: str, trial: int) -> None:
        raise AgentError("it ended")

    with pytest.raises(AgentError, match="it ended"):
        campaign(MadeUp(fate=gone), TrialRecorder(), further=[MadeUp(fate=gone)]).run()


def test_with_several_hosts_a_run_goes_on_with_the_turns_that_follow() -> None:
    first, second, recorder = MadeUp(noise=0.5), MadeUp(noise=0.5), TrialRecorder()
    campaign(first, recorder, further=[second]).run()
    stored = [trial for trial in recorder.finished if trial.planned.boot == 0]
    again, other, rest = MadeUp(noise=0.5), MadeUp(noise=0.5), TrialRecorder(stored)
    campaign(again, rest, further=[other]).run()
    assert min(trial.planned.boot for trial in rest.finished) == 1
    assert len(other.benches) >= 1


def test_every_host_has_boots_of_every_bench() -> None:
    """Two benches and two hosts: by turns over all boots each host would have one of them alone."""
    text = TEXT.replace("[workloads", '[factors]\n"sut.memory" = ["128M", "256M"]\n[workloads', 1)
    first, second, recorder = MadeUp(noise=0.5), MadeUp(noise=0.5), TrialRecorder()
    campaign(first, recorder, text, [second]).run()
    of = {(t.planned.cell["sut.memory"], t.planned.boot % 2) for t in recorder.finished}
    assert len(of) == 4
