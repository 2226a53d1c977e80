"""A campaign whose machine takes whole batches: nothing can enter an emulated machine once it runs.

The order of work is `run` -> `_wave` (every batch that can be decided on now) -> `_take_in`. What a
wave holds follows from the design and from what earlier waves measured, never from how many batches
run at once or which of them ends first; so a run's trials, their numbers and their order are the
same for any number of jobs.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Protocol

from hypertare import batch as batches
from hypertare.batch import Batch, Place, seed_of
from hypertare.campaign import Campaign, Key
from hypertare.design import Variant
from hypertare.machine.emulated import Output
from hypertare.records import Record
from hypertare.trials import FinishedTrial, PlannedTrial

_GROWTH = 0.5
"""Boots of a further wave, as a share of those so far: few waves, and few boots too many."""

_BATCH_ESTIMATE_S = 12.0


class BatchMachine(Protocol):
    """What a campaign of batches needs of a machine."""

    @property
    def jobs(self) -> int: ...
    def run(self, batches: Sequence[Batch]) -> Iterator[Output]: ...


class BatchCampaign(Campaign):
    """Carries a design out on an emulated machine."""

    machine: BatchMachine  # type: ignore[assignment]

    def run(self) -> bool:
        """Works until nothing is left to do.

        Returns:
            Whether every cell came to its end; `False` when the time limit ended the run.
        """
        self._started = self.clock()
        wave = 0
        while self._open_keys():
            boots = self._wave(wave)
            outputs = self.machine.run([batch for batch in boots if not self._is_stored(batch)])
            for batch in boots:
                if self._is_stored(batch):
                    self._restore(batch)
                    continue
                if self._out_of_time(0.0):
                    return False
                self._take_in(batch, next(outputs))
            for key in self._open_keys():
                self._decide(key, self.design.plots[key.plot])
            wave += 1
        return True

    # --- a wave

    def _wave(self, wave: int) -> list[Batch]:
        return [
            self._batch(plot, wave)
            for plot in self.design.plot_order(wave)
            for _ in range(self._boots_wanted(plot))
        ]

    def _boots_wanted(self, plot: int) -> int:
        """At first as many as the least number of trials needs, then half as many again."""
        if not any(key.plot == plot for key in self._open_keys()):
            return 0
        settings = self.study.design
        done = self._boots[plot]
        most = math.ceil(settings.max_trials / settings.blocks_per_boot)
        if done == 0:
            least = math.ceil(settings.min_trials / settings.blocks_per_boot)
            return min(max(least, settings.min_boots), most)
        return max(1, min(math.ceil(done * _GROWTH), most - done))

    def _batch(self, index: int, wave: int) -> Batch:
        """One boot: warm-ups of every open cell of the plot, then its blocks."""
        plot = self._live_plot(index, self.design.plots[index])
        boot, replicate = self._next_boot, self._boots[index]
        self._next_boot += 1
        self._boots[index] += 1
        seed = seed_of(self.design.seed, plot.levels, replicate)
        places = tuple(self._places(index, boot))
        return batches.make(self.file, plot, boot, seed, places, self.surroundings)

    def _places(self, index: int, boot: int) -> Iterator[Place]:
        open_cells = {key.cell for key in self._open_keys() if key.plot == index}
        warmups = [
            cell
            for cell in sorted(open_cells)
            if self._warms_up(Key(index, cell))
            for _ in range(self.study.design.warmup)
        ]
        for cell in warmups:
            yield from self._block_places(index, cell, boot, warmup=True)
        for repetition in range(self.study.design.blocks_per_boot):
            for cell in self.design.cell_order(boot, repetition):
                if cell in open_cells:
                    yield from self._block_places(index, cell, boot, warmup=False)

    def _block_places(self, index: int, cell: int, boot: int, *, warmup: bool) -> Iterator[Place]:
        plot, key = self.design.plots[index], Key(index, cell)
        variants = {self._identity(variant): variant for variant in plot.variants}
        block = self._next_block
        self._next_block += 1
        for planned in self.design.block(plot, self.design.cells[cell], block, boot):
            variant = variants[self._identity_of(planned, plot)]
            if (key, variant.node) in self._abandoned:
                continue
            kind = "warmup" if warmup else "measured"
            levels = {k: v for k, v in planned.cell.items() if k != "workload"}
            yield Place(variant, self._numbered(replace(planned, kind=kind)), levels, key)

    # --- what comes out

    def _take_in(self, batch: Batch, output: Output) -> None:
        """Writes down what a boot told, trial by trial."""
        self._host_s.append(output.seconds)
        self.observer.bench(batch.boot, self.design.plots[batch.places[0].key.plot])
        bench, trials = batches.tell(batch, output)
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

    def _is_stored(self, batch: Batch) -> bool:
        return all(place.planned.id in self._stored for place in batch.places)

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
            self._finished.append(self._stored[planned.id])
            self._count_failure(key, variant, planned, self._stored[planned.id].error)
            return
        super()._note(key, variant, planned, records, error, seconds, fingerprint)

    def _restore(self, batch: Batch) -> None:
        for place in batch.places:
            finished = self._stored[place.planned.id]
            self._finished.append(finished)
            self._count_failure(place.key, place.variant, finished.planned, finished.error)

    # --- time

    def remaining_s(self) -> float:
        """Most time of this host that the rest may take."""
        settings = self.study.design
        mean = sum(self._host_s) / len(self._host_s) if self._host_s else _BATCH_ESTIMATE_S
        most = math.ceil(settings.max_trials / settings.blocks_per_boot)
        plots = {key.plot for key in self._open_keys()}
        boots = sum(max(0, most - self._boots[plot]) for plot in plots)
        left = settings.time_limit - (self.clock() - self._started)
        return max(0.0, min(boots * mean / self.machine.jobs, left))
