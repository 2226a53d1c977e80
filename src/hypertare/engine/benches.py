"""Benches that stand on a machine, one at a time: trials run on them one after the other."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from hypertare.base import interrupt
from hypertare.design import planner
from hypertare.design.design import WholePlot
from hypertare.design.trials import FinishedTrial, host_of
from hypertare.engine.trial_recorder import TrialRecorder
from hypertare.machines.batch import TrialRecords, TrialSlot, loses_bench
from hypertare.machines.environment import BackgroundLoad
from hypertare.machines.steps import HostAgent
from hypertare.protocol import plan
from hypertare.protocol.records import BenchReady, Record, TrialEnd


@dataclass(frozen=True)
class NotMade:
    """The reason why a bench could not be made; `node` is the node that failed, None if none did."""

    error: str
    node: str | None
    records: tuple[Record, ...]


@dataclass
class _Site:
    """A host that benches stand on."""

    machine: HostAgent
    on: planner.MachineResources
    others: BackgroundLoad
    is_lost: bool = False


class Benches:
    """Makes benches and runs trials on the bench that stands.

    `plot` is the plot of that bench, None if no bench stands. `lost` states that the bench must be made
    anew: in the last trial a node was lost, or one end did not answer the other. A guest's network may stop
    for good while the guest itself goes on.
    """

    def __init__(
        self,
        machine: HostAgent,
        recorder: TrialRecorder,
        on: planner.MachineResources,
        clock: Callable[[], float] = time.monotonic,
        further: Sequence[HostAgent] = (),
    ) -> None:
        self.recorder = recorder
        self.clock = clock
        notify = recorder.journal.add_other_programs
        self._sites = [
            _Site(one, resources, BackgroundLoad(notify, one.proc, beside=one.processes))
            for one, resources in zip((machine, *further), on.hosts, strict=True)
        ]
        self._site = self._sites[0]
        self.plot: WholePlot | None = None
        self.lost = False
        self._plans: dict[object, plan.Trial] = {}

    @property
    def others(self) -> BackgroundLoad:
        return self._site.others

    @property
    def has_several(self) -> bool:
        """Whether the run has several hosts, which take turns with its boots."""
        return len(self._sites) > 1

    def host_of(self, boot: int) -> int:
        """The host that a boot is of."""
        return host_of(boot, len(self._sites))

    @property
    def living(self) -> list[int]:
        """The hosts that are not lost."""
        return [number for number, site in enumerate(self._sites) if not site.is_lost]

    def lose_host(self) -> bool:
        """Marks the host in use as lost; returns whether another host is left."""
        self._site.is_lost, self.plot = True, None
        return bool(self.living)

    def make(self, plot: WholePlot, boot: int) -> NotMade | None:
        """Makes the bench of a plot on the host of the boot; returns the reason if it cannot be made.

        No other bench may stand.
        """
        self._site = self._sites[self.host_of(boot)]
        file = self.recorder.file
        study = file.cell(plot.levels)
        cells = {v.node: file.cell({**plot.levels, **v.levels}) for v in plot.variants}
        self._plans.clear()
        bench = planner.make_bench(study, plot, cells, self._site.on)
        records = self._site.machine.make_bench(bench, planner.boot_limit_s(study))
        self.recorder.bench(boot, records)
        ready = records[-1]
        assert isinstance(ready, BenchReady)
        if ready.error is not None:
            return NotMade(ready.error, ready.node, tuple(records))
        self.plot = plot
        # The CPUs of what is measured, and of what moves its packets.
        named = {name for variant in plot.variants for name in variant.nodes}
        cpus = {cpu for node in bench.nodes if node.name in named for cpu in node.cpus}
        if bench.datapath_cpu is not None:
            cpus.add(bench.datapath_cpu)
        self._site.machine.stand_aside(cpus)
        return None

    def run(self, place: TrialSlot, plot: WholePlot, limit_s: float = math.inf) -> FinishedTrial:
        """Runs one trial on the bench that stands. Ctrl-C is delayed until the trial has ended.

        Args:
            place: the trial.
            plot: the plot of the bench, without variants that no open cell needs.
            limit_s: seconds that the run's time limit leaves for the trial.
        """
        with interrupt.finishing("this trial"):
            try:
                return self._run(place, plot, limit_s)
            except BaseException:
                # The machine still runs the trial and takes no other step: the bench is of no more use.
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
        records = self._site.machine.run(trial)
        seconds = self.clock() - began
        self.recorder.pass_on(records)
        end = records[-1]
        assert isinstance(end, TrialEnd)
        self.lost = loses_bench(records)
        error = end.error
        if error is not None and is_cut and seconds >= limit_s:
            error = (
                f"{error}; the run's time limit leaves it no more (--time-limit, design.time_limit)"
            )
        return self.recorder.trial(TrialRecords(place, tuple(records), error, seconds))

    def _plan(self, place: TrialSlot, plot: WholePlot) -> plan.Trial:
        """Returns the plan of a trial. Plans of one cell on one bench differ in the number alone, so one is
        kept.
        """
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
                self._site.on,
                warmup=warmup,
            )
        return self._plans[key].model_copy(update={"id": planned.id})

    def fail(self, place: TrialSlot, error: str, records: Sequence[Record] = ()) -> FinishedTrial:
        """Records a trial that could not begin, and returns it."""
        return self.recorder.trial(TrialRecords(place, tuple(records), error, 0.0))

    def down(self) -> None:
        """Removes the bench, where one stands."""
        self.others.flush()
        if self.plot is not None:
            self.plot, self.lost = None, False
            self.recorder.pass_on(self._site.machine.teardown())
