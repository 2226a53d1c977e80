"""A campaign whose machine takes whole batches: nothing can enter an emulated machine once it runs.

The order of work is `run` -> `_wave` (every batch that can be decided on now) -> `_take_in`. What a
wave holds follows from the design and from what earlier waves measured, never from how many batches
run at once or which of them ends first; so a run's trials, their numbers and their order are the
same for any number of jobs.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from typing import Protocol

from hypertare.base.errors import InputError
from hypertare.design import pc
from hypertare.design.design import Design, Variant
from hypertare.design.trials import FinishedTrial, Kind, PlannedTrial
from hypertare.engine.campaign import Campaign, Journal, Key, Observer, expected_trial_s
from hypertare.machines import batch as batches
from hypertare.machines.batch import Batch, Place, seed_of
from hypertare.machines.emulated import Output
from hypertare.protocol.records import Record
from hypertare.study import Study

_GROWTH = 0.5
"""Boots of a further wave, as a share of those so far: few waves, and few boots too many."""

_HOST_PER_VIRTUAL_S = 3.0
"""Seconds of the host that a second of virtual time at work takes."""


class BatchMachine(Protocol):
    """What a campaign of batches needs of a machine."""

    @property
    def jobs(self) -> int: ...
    def run(self, batches: Sequence[Batch]) -> Generator[Output, None, None]: ...


class BatchJournal(Journal, Protocol):
    def benches(self) -> Iterator[tuple[int, Sequence[Record]]]: ...


class BatchObserver(Observer, Protocol):
    def boots(self, done: int, of: int, at_once: int, remaining_s: float) -> None: ...


class BatchCampaign(Campaign):
    """Carries a design out on an emulated machine."""

    machine: BatchMachine  # type: ignore[assignment]
    journal: BatchJournal
    observer: BatchObserver

    def run(self) -> bool:
        """Works until nothing is left to do.

        Returns:
            Whether every cell came to its end; `False` when the time limit ended the run.
        """
        self._started = self.clock()
        wave = 0
        while self._open_keys():
            if not self._carry_out(self._wave(wave)):
                return False
            for key in self._open_keys():
                self._decide(key, self.design.plots[key.plot])
            wave += 1
        return True

    def _carry_out(self, boots: Sequence[Batch]) -> bool:
        """Takes a wave in, in its order; `False` when the time limit ended it."""
        missing = [batch for batch in boots if not self._is_stored(batch)]
        self._waiting: set[object] = {batch.machine for batch in missing}
        of = len(self._waiting)
        self._tell_boots(of)
        # However this ends, also by Ctrl-C, no machine goes on.
        with closing(self.machine.run(missing)) as outputs:
            for batch in boots:
                if self._is_stored(batch):
                    self._restore(batch)
                    continue
                if self._out_of_time(0.0):
                    return False
                output = next(outputs)
                self._waiting.discard(batch.machine)
                self._take_in(batch, output)
                self._tell_boots(of)
        return True

    def _tell_boots(self, of: int) -> None:
        if of:
            done = of - len(self._waiting)
            self.observer.boots(done, of, self.machine.jobs, self.remaining_s())

    # --- a wave

    def _wave(self, wave: int) -> list[Batch]:
        wanted = {plot: self._boots_wanted(plot) for plot in self.design.plot_order(wave)}
        turns = range(max(wanted.values()))
        return [
            batch
            for turn in turns
            for batch in self._turn([plot for plot, boots in wanted.items() if turn < boots])
        ]

    def _turn(self, plots: Sequence[int]) -> list[Batch]:
        """A boot of each of these plots. PCs with guests come first: they take longest, and none of them
        should be left to run alone.
        """
        boots = [batch for plot in plots for batch in self._boot(plot)]
        boots.sort(key=lambda batch: not batch.kind.has_guests)
        return [
            replace(batch, places=tuple(self._numbered_place(place) for place in batch.places))
            for batch in boots
        ]

    def _numbered_place(self, place: Place) -> Place:
        return replace(place, planned=self._numbered(place.planned))

    def _boots_wanted(self, plot: int) -> int:
        """At first as many as the least number of trials needs, then half as many again."""
        if not any(key.plot == plot for key in self._open_keys()):
            return 0
        least, most = boots_of_plot(self.study)
        done = self._boots[plot]
        return max(1, min(math.ceil(done * _GROWTH), most - done)) if done else least

    def _boot(self, index: int) -> Iterator[Batch]:
        """One boot: warm-ups of every open cell of the plot, then its blocks.

        Its trials of different classes of PC boot apart, with the same seed: they are one block still.
        """
        plot = self._live_plot(index, self.design.plots[index])
        boot, replicate = self._next_boot, self._boots[index]
        self._next_boot += 1
        self._boots[index] += 1
        seed = seed_of(self.design.seed, plot.levels, replicate)
        for part, places in enumerate(batches.parts(tuple(self._places(index, boot, replicate)))):
            yield batches.make(self.file, plot, boot, seed, places, self.surroundings, part)

    def _places(self, index: int, boot: int, replicate: int) -> Iterator[Place]:
        """In an order that goes with the seed: the same in boots of other plots that have the same one."""
        count = itertools.count()
        open_cells = {key.cell for key in self._open_keys() if key.plot == index}
        warmups = [
            cell
            for cell in sorted(open_cells)
            if self._warms_up(Key(index, cell))
            for _ in range(self.study.design.warmup)
        ]
        for cell in warmups:
            yield from self._block_places(index, cell, boot, (replicate, next(count)), warmup=True)
        for repetition in range(self.study.design.blocks_per_boot):
            for cell in self.design.cell_order(replicate, repetition):
                if cell in open_cells:
                    order = replicate, next(count)
                    yield from self._block_places(index, cell, boot, order, warmup=False)

    def _block_places(
        self, index: int, cell: int, boot: int, order: tuple[int, int], *, warmup: bool
    ) -> Iterator[Place]:
        plot, key = self.design.plots[index], Key(index, cell)
        variants = {self._identity(variant): variant for variant in plot.variants}
        block = self._next_block
        self._next_block += 1
        for planned in self.design.block(plot, self.design.cells[cell], block, boot, *order):
            variant = variants[self._identity_of(planned, plot)]
            if (key, variant.node) in self._abandoned:
                continue
            kind: Kind = "warmup" if warmup else "measured"
            levels = {k: v for k, v in planned.cell.items() if k != "workload"}
            yield Place(variant, replace(planned, kind=kind), levels, key)

    # --- what comes out

    def _take_in(self, batch: Batch, output: Output) -> None:
        """Writes down what a boot told, trial by trial."""
        if not output.reused:
            self._host_s.append(output.seconds)
        bench, trials = batches.tell(batch, output)
        if batch.part >= self._known_benches[batch.boot]:
            self.journal.add_bench(batch.boot, bench)
        self._pass_on_logs(bench)
        for told in trials:
            place = told.place
            self._pass_on_logs(told.records)
            self._note(
                place.key,
                place.variant,
                place.planned,
                told.records,
                told.error,
                told.seconds,
                output.fingerprint,
            )

    # --- a run that goes on

    def _resume(self, trials: Sequence[FinishedTrial]) -> None:
        """An earlier run's trials enter when their turn comes, so that every decision is the same."""
        self._stored = {trial.planned.id: trial for trial in trials}
        self._started = self.clock()
        self._boots = [0] * len(self.design.plots)
        self._host_s: list[float] = []
        self._waiting = set()
        self._known_benches = Counter(boot for boot, _ in self.journal.benches())

    def _is_stored(self, batch: Batch) -> bool:
        return all(self._is_known(place.planned) for place in batch.places)

    def _is_known(self, planned: PlannedTrial) -> bool:
        stored = self._stored.get(planned.id)
        if stored is None:
            return False
        known = stored.planned
        if (known.platform, known.cell) != (planned.platform, planned.cell):
            raise InputError(
                f"Trial {planned.id} of this run is another one than the study plans now: the run was "
                "begun by another version of hypertare.",
                "Go on with that version, or start anew; in virtual time nothing is measured twice.",
            )
        return True

    def _note(
        self,
        key: Key,
        variant: Variant,
        planned: PlannedTrial,
        records: Sequence[Record],
        error: str | None,
        seconds: float,
        fingerprint: str | None = None,
    ) -> None:
        if planned.id in self._stored:
            # Of a batch that was being written down when the run was interrupted.
            self._enter(key, variant, self._stored[planned.id])
            self._count_failure(key, variant, planned, self._stored[planned.id].error)
            return
        super()._note(key, variant, planned, records, error, seconds, fingerprint)

    def _restore(self, batch: Batch) -> None:
        for place in batch.places:
            finished = self._stored[place.planned.id]
            self._enter(place.key, place.variant, finished)
            self._count_failure(place.key, place.variant, finished.planned, finished.error)

    # --- time

    def remaining_s(self) -> float:
        """Most time of this host that the rest may take."""
        host_s = self._host_s or [boot_s(self.study, self.design)]
        _, most = boots_of_plot(self.study)
        plots = {key.plot for key in self._open_keys()}
        later = sum(max(0, most - self._boots[plot]) for plot in plots)
        boots = len(self._waiting) + later * len(pc.classes(self.study))
        rounds = math.ceil(boots / self.machine.jobs)
        left = self.study.design.time_limit - (self.clock() - self._started)
        return max(0.0, min(rounds * sum(host_s) / len(host_s), left))


def boots_of_plot(study: Study) -> tuple[int, int]:
    """Boots of each plot: the first wave's, and the most that there can be."""
    settings = study.design
    most = math.ceil(settings.max_trials / settings.blocks_per_boot)
    least = math.ceil(settings.min_trials / settings.blocks_per_boot)
    return min(max(least, settings.min_boots), most), most


def expected_boots(study: Study, design: Design) -> tuple[int, int]:
    """The least and the most boots of PCs of a whole run."""
    least, most = boots_of_plot(study)
    each = sum(_machines(design, kind) for kind in pc.classes(study))
    return least * each, most * each


def _machines(design: Design, kind: pc.PcClass) -> int:
    """PCs of a class that differ: the baseline's may be the same one in several plots."""
    if kind.has_guests:
        return len(design.plots)
    return len({seed_of(design.seed, plot.levels, 0) for plot in design.plots})


def expected_boots_s(study: Study, design: Design, boots: int, jobs: int) -> float:
    """Seconds of this host that so many boots are expected to take."""
    return math.ceil(boots / jobs) * boot_s(study, design)


def boot_s(study: Study, design: Design) -> float:
    """Seconds of this host that the boot of one PC with its trials is expected to take, before any was
    seen."""
    a_round = sum(
        expected_trial_s(study, cell.workload) * len(plot.variants)
        for plot in design.plots
        for cell in design.cells
    ) / len(design.plots)
    kinds = pc.classes(study)
    boots = sum(kind.boot_s + kind.guest_boot_s * study.bench_guests for kind in kinds)
    trials = _HOST_PER_VIRTUAL_S * study.design.blocks_per_boot * a_round
    return (boots + trials) / len(kinds)
