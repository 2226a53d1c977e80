"""Carries a prepared study out into a run directory: walks, capacities, cells, searches, summary."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from hypertare.base import loading
from hypertare.design.planner import MachineResources
from hypertare.design.trials import Kind
from hypertare.engine.capacity import capacity_needs, capacity_replicates, measured_capacity
from hypertare.engine.ending import Ended, ending, sum_up
from hypertare.engine.new_run import create
from hypertare.engine.numbers import BESIDE_CELLS
from hypertare.engine.prepare import Prepared, programs_of
from hypertare.engine.run_options import RunOptions
from hypertare.engine.runners.registry import runner_of
from hypertare.engine.runners.runner import Runner
from hypertare.engine.trial_recorder import Observer, TrialRecorder
from hypertare.engine.trial_runner import Asking, TrialRunner
from hypertare.machines.asked import Asked
from hypertare.runs.store import Store


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
