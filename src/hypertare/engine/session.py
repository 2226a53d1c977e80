"""Carries a prepared study out into a run directory: walks, capacities, cells, searches, summary.

A capacity is the most that a workload carries, for rates that are given as shares. That of a stream is
its goodput without pacing, with the study's own knobs and not the levels of a factor. With several
platforms on one bench it is the least of their goodputs, because all of them are offered the same rate.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from hypertare.base import loading
from hypertare.base.errors import MachineError
from hypertare.base.variables import Cell
from hypertare.design.design import Design, Variant, WholePlot
from hypertare.design.planner import Capacity, MachineResources
from hypertare.design.trials import Ask, FinishedTrial, Kind
from hypertare.engine.prepare import Prepared, RunOptions, programs_of
from hypertare.engine.run_directory import Ended, create, ending, sum_up
from hypertare.engine.runners.runner import Runner, runner_of
from hypertare.engine.trial_recorder import BESIDE_CELLS, Observer, TrialRecorder
from hypertare.engine.trial_runner import Asking, TrialRunner
from hypertare.machines.asked import Asked
from hypertare.runs.store import Store
from hypertare.study import Study, StudyFile

_TRIALS = 3
"""Trials of each capacity by the wall clock. All rates of a run are shares of one figure, so its error
moves no comparison.
"""


def capacity_replicates(study: Study) -> int:
    """Returns the number of trials that each capacity is measured by."""
    return 1 if study.clock_kind.repeats else _TRIALS


@dataclass(frozen=True)
class Need:
    """A capacity that the study's rates are shares of."""

    workload: str
    plot: WholePlot

    def cell(self, variant: Variant) -> Cell:
        return {**self.plot.levels, **variant.levels}

    def ask(self, variant: Variant, replicate: int) -> Ask:
        levels = {**self.cell(variant), f"workloads.{self.workload}.rate": None}
        return Ask(levels, self.cell(variant), replicate)


def capacity_needs(file: StudyFile, study: Study, design: Design) -> list[Need]:
    """The capacities that must be known before anything else is planned."""
    found = []
    for workload in study.workloads:
        path = f"workloads.{workload}.rate"
        cells = [study, *(file.cell({path: v}) for v in study.factors_of(workload).get(path, ()))]
        if any(cell.workloads[workload].is_share_of_capacity for cell in cells):
            found += [Need(workload, plot) for plot in design.plots]
    return found


def measured_capacity(need: Need, trials: Iterable[FinishedTrial]) -> Capacity | None:
    """The capacity, none while a platform has no trial of it yet.

    Raises:
        MachineError: a trial failed, or nothing came through.
    """
    known = [trial for trial in trials if trial.planned.kind == "capacity"]
    medians = []
    for variant in need.plot.variants:
        of = variant.platform, {"workload": need.workload, **need.cell(variant)}
        mine = [_goodput(one) for one in known if (one.planned.platform, one.planned.cell) == of]
        if not mine:
            return None
        medians.append(statistics.median(mine))
    return Capacity(need.workload, need.plot.levels, min(medians))


def _goodput(trial: FinishedTrial) -> float:
    goodput = trial.values.get("goodput", 0.0)
    if trial.status == "failed" or not goodput > 0:
        raise MachineError(
            f"the capacity of {trial.planned.workload} on {trial.planned.platform} is not known: "
            f"{trial.error or 'nothing came through'}",
            "Rates in '% of capacity' are shares of what the stream carries when nothing paces it. "
            "Mend what failed, or give rates in b/s.",
        )
    return goodput


def carry_out(
    prepared: Prepared,
    on: MachineResources,
    folder: Path,
    observer: Observer,
    *,
    resume: bool = False,
    run_options: RunOptions | None = None,
    asked: Asked | None = None,
) -> Ended:
    """Runs the study into a run directory and sums it up, also when it is interrupted.

    Args:
        prepared, on, folder, observer: what is run, with what, into which directory, and who watches.
        resume: goes on with the run that is there.
        run_options: how it is carried out.
        asked: programs that were asked for their versions before, beside what went on.

    Raises:
        NotPutBackError: the run is whole, but a setting of this host is not as it was before.
    """
    loading.later("hypertare.findings.summarise", "hypertare.stats.stop", "scipy.special")
    run_options = (run_options or RunOptions()).checked(prepared)
    goes_on = f"hypertare run --resume --out {folder}"
    kept = f"`hypertare report {folder}` shows them, `{goes_on}` goes on."
    with Store.resume(folder) if resume else create(prepared, on, folder, asked) as store:
        with ending(store, "the run", goes_on, kept) as end:
            session = Session(prepared, on, store, observer, run_options)
            session.model_walks()
            session.measure_capacities()
            end.complete = session.run_cells()
            session.run_searches()
        loading.wait()
        summary = sum_up(store, folder)
    if end.left is not None:
        raise end.left
    return Ended(summary, end.interrupted)


@dataclass
class Session:
    """A run at work: its study, machine, file and observer. Each part of the run is a method."""

    prepared: Prepared
    on: MachineResources
    store: Store
    observer: Observer
    run_options: RunOptions

    @cached_property
    def recorder(self) -> TrialRecorder:
        return TrialRecorder(self.prepared.file, self.store, self.observer)

    def model_walks(self) -> None:
        """Runs the workloads once under the model of page walks, which virtual time leaves out."""
        file, study = self.prepared.file, self.prepared.study
        if study.walk is None:
            return
        from hypertare.engine import walks
        from hypertare.machines.image import programs as real

        stage = walks.Stage(
            study.walk,
            self.prepared.processors,
            real.choose(programs_of(file, study)),
            self.store,
            self.observer.notify,
            jobs=self.run_options.jobs or 1,
            fresh=self.run_options.fresh,
        )
        stage.carry_out(walks.needs(file, study))

    def measure_capacities(self) -> None:
        """Measures the capacities of which rates are shares, one workload on one platform after the other.

        All plans from now on use them.
        """
        study = self.prepared.study
        wanted = capacity_needs(self.prepared.file, study, self.prepared.design)
        known = list(self.store.trials())
        missing = [need for need in wanted if measured_capacity(need, known) is None]
        kinds = {(need.workload, v.platform): None for need in missing for v in need.plot.variants}
        for workload, platform in kinds:
            blocks = [
                [need.ask(variant, replicate)]
                for need in missing
                for variant in need.plot.variants
                for replicate in range(capacity_replicates(study))
                if (need.workload, variant.platform) == (workload, platform)
            ]
            with self.trial_runner(workload, platform, beside_cells="capacity") as lab:
                lab.blocks(blocks, "capacity")
        known = list(self.store.trials())
        found = (measured_capacity(need, known) for need in wanted)
        self.on = replace(self.on, capacities=tuple(one for one in found if one is not None))

    def run_cells(self) -> bool:
        """Carries the design out; whether every cell came to its end."""
        search = self.prepared.search
        if search is not None and search.settings.only:
            return True
        return self._runner.run_cells(self)

    def run_searches(self) -> None:
        """Searches loss-free rates, one platform after the other, the settings of each side by side."""
        plan = self.prepared.search
        if plan is None:
            return
        from hypertare.search.rounds import Rounds

        for platform in plan.platforms:
            rounds = Rounds(plan, platform, self.store.trials())
            if not rounds.trials_left:
                continue
            workload = plan.settings.workload
            with self.trial_runner(workload, platform, beside_cells="search") as lab:
                rounds.run(lab)

    def trial_runner(
        self, workload: str, platform: str, *, beside_cells: Kind | None = None
    ) -> AbstractContextManager[TrialRunner]:
        """A trial runner on the study's machine, for whoever decides as answers come what to ask next."""
        first = None
        if beside_cells is not None:
            first = max(BESIDE_CELLS[beside_cells], self.store.next_trial_id)
        seed = self.prepared.design.seed
        asking = Asking(workload, platform, self.recorder, self.on, seed, first)
        return self._runner.trial_runner(asking, self.run_options)

    @property
    def _runner(self) -> Runner:
        return runner_of(self.prepared.study.machine_kind)
