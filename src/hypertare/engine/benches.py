"""Benches that stand on a machine, one at a time: trials run on them one after the other."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from hypertare.base import interrupt
from hypertare.design import planner
from hypertare.design.design import WholePlot
from hypertare.design.trials import FinishedTrial, host_of
from hypertare.engine.trial_recorder import TrialRecorder
from hypertare.machines.background_load import BackgroundLoad
from hypertare.machines.batch import TrialRecords, TrialSlot
from hypertare.protocol import plan
from hypertare.protocol.phase import REACH
from hypertare.protocol.records import BenchReady, Record, TaskResult, TrialEnd


class Machine(Protocol):
    """A machine that takes one step after the other."""

    @property
    def proc(self) -> Path | None: ...
    def make_bench(self, bench: plan.Bench, limit_s: float) -> list[Record]: ...
    def run(self, trial: plan.Trial) -> list[Record]: ...
    def teardown(self) -> list[Record]: ...
    def processes(self) -> tuple[int, ...]: ...
    def stand_aside(self, cpus: Set[int]) -> None: ...


@dataclass(frozen=True)
class NotMade:
    """Why a bench could not be had; `node` is to blame, where one is."""

    error: str
    node: str | None
    records: tuple[Record, ...]


@dataclass
class _Site:
    """A host that benches stand on."""

    machine: Machine
    on: planner.MachineResources
    others: BackgroundLoad
    is_lost: bool = False


def _watching(machine: Machine, recorder: TrialRecorder) -> BackgroundLoad:
    notify = recorder.journal.add_other_programs
    return BackgroundLoad(notify, machine.proc, beside=machine.processes)


class Benches:
    """Makes benches and runs trials on the one that stands: `plot`, absent where none does.

    `lost`: the last trial lost one of its nodes, or one end did not answer the other, so that the bench is
    of no more use: a guest's network has been seen to stand still for good while the guest went on.
    """

    def __init__(
        self,
        machine: Machine,
        recorder: TrialRecorder,
        on: planner.MachineResources,
        clock: Callable[[], float] = time.monotonic,
        further: Sequence[Machine] = (),
    ) -> None:
        self.recorder = recorder
        self.clock = clock
        self._sites = [
            _Site(one, resources, _watching(one, recorder))
            for one, resources in zip((machine, *further), on.hosts, strict=True)
        ]
        self._site = self._sites[0]
        self.plot: WholePlot | None = None
        self.lost = False
        self._plans: dict[object, plan.Trial] = {}

    @property
    def machine(self) -> Machine:
        """That of the host at work."""
        return self._site.machine

    @property
    def on(self) -> planner.MachineResources:
        return self._site.on

    @property
    def others(self) -> BackgroundLoad:
        return self._site.others

    @property
    def has_several(self) -> bool:
        """Hosts, which have boots by turns."""
        return len(self._sites) > 1

    def host_of(self, boot: int) -> int:
        """The host that a boot is of."""
        return host_of(boot, len(self._sites))

    @property
    def living(self) -> list[int]:
        """The hosts that are not lost."""
        return [number for number, site in enumerate(self._sites) if not site.is_lost]

    def lose_host(self) -> bool:
        """Goes on without the host at work; whether there is another."""
        self._site.is_lost, self.plot = True, None
        return bool(self.living)

    def make(self, plot: WholePlot, boot: int) -> NotMade | None:
        """Makes the bench of a plot, where none stands, on the host that the boot is of."""
        self._site = self._sites[self.host_of(boot)]
        file = self.recorder.file
        study = file.cell(plot.levels)
        cells = {v.node: file.cell({**plot.levels, **v.levels}) for v in plot.variants}
        self._plans.clear()
        bench = planner.make_bench(study, plot, cells, self.on)
        records = self.machine.make_bench(bench, planner.boot_limit_s(study))
        self.recorder.bench(boot, records)
        ready = records[-1]
        assert isinstance(ready, BenchReady)
        if ready.error is not None:
            return NotMade(ready.error, ready.node, tuple(records))
        self.plot = plot
        self.machine.stand_aside(_under_test(bench, plot))
        return None

    def run(self, place: TrialSlot, plot: WholePlot, limit_s: float = math.inf) -> FinishedTrial:
        """One trial on the bench that stands, to its end, also when Ctrl-C comes meanwhile.

        Args:
            place: the trial.
            plot: what of the bench is still of interest.
            limit_s: what the run's time limit leaves for it.
        """
        with interrupt.finishing("this trial"):
            try:
                return self._run(place, plot, limit_s)
            except BaseException:
                # The machine is still at it and would answer nothing else: its end is the bench's.
                self.plot = None
                raise

    def _run(self, place: TrialSlot, plot: WholePlot, limit_s: float) -> FinishedTrial:
        trial = self._plan(place, plot)
        is_cut = any(phase.limit_s > limit_s for phase in trial.phases)
        if is_cut:
            shorter = (
                phase.model_copy(update={"limit_s": min(phase.limit_s, limit_s)})
                for phase in trial.phases
            )
            trial = trial.model_copy(update={"phases": tuple(shorter)})
        self.recorder.observer.begin(place.planned)
        began = self.clock()
        records = self.machine.run(trial)
        seconds = self.clock() - began
        self.recorder.pass_on(records)
        end = records[-1]
        assert isinstance(end, TrialEnd)
        self.lost = end.lost is not None or _is_cut_off(records)
        error = end.error
        if error is not None and is_cut and seconds >= limit_s:
            error = (
                f"{error}; the run's time limit leaves it no more (--time-limit, design.time_limit)"
            )
        return self.recorder.trial(TrialRecords(place, tuple(records), error, seconds))

    def _plan(self, place: TrialSlot, plot: WholePlot) -> plan.Trial:
        """A trial's plan; on a bench that stands, those of a cell differ in their numbers alone."""
        planned = place.planned
        nodes = tuple(variant.node for variant in plot.variants)
        warmup = planned.kind == "warmup"
        key = (planned.workload, place.variant.node, nodes, warmup, repr(place.levels))
        if key not in self._plans:
            self._plans[key] = planner.make_trial(
                planned.id,
                self.recorder.file.cell(place.levels),
                planned.workload,
                place.variant,
                plot,
                self.on,
                warmup=warmup,
            )
        return self._plans[key].model_copy(update={"id": planned.id})

    def fail(self, place: TrialSlot, error: str, records: Sequence[Record] = ()) -> FinishedTrial:
        """A trial that could not begin."""
        return self.recorder.trial(TrialRecords(place, tuple(records), error, 0.0))

    def down(self) -> None:
        """Removes the bench, where one stands."""
        self.others.flush()
        if self.plot is not None:
            self.plot, self.lost = None, False
            self.recorder.pass_on(self.machine.teardown())


def _under_test(bench: plan.Bench, plot: WholePlot) -> frozenset[int]:
    """The CPUs of what is measured, and of what moves its packets."""
    named = {name for variant in plot.variants for name in variant.nodes}
    cpus = {cpu for node in bench.nodes if node.name in named for cpu in node.cpus}
    return frozenset(cpus if bench.datapath_cpu is None else cpus | {bench.datapath_cpu})


def _is_cut_off(records: Sequence[Record]) -> bool:
    """Whether an end did not answer before anything was measured."""
    return any(
        isinstance(one, TaskResult) and one.phase == REACH and one.error is not None
        for one in records
    )
