"""Measures the cells of a design on a machine that takes whole boots, until each cell is precise.

The order of work is `run` -> `_wave` (every batch that can be decided on now) -> `_carry_out`. What a
wave holds follows from the design and from what earlier waves measured, never from how many batches
run at once or which of them ends first; so a run's trials, their numbers and their order are the
same for any number of jobs.
"""

from __future__ import annotations

import itertools
import math
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING

from hypertare.base import loading
from hypertare.base.errors import InputError
from hypertare.design import pc
from hypertare.design.trials import Kind
from hypertare.engine.cell_tracker import CellTracker, Key
from hypertare.engine.expected import boot_s, boots_of_plot, cuts
from hypertare.engine.trial_recorder import Numbers
from hypertare.machines import batch as batches
from hypertare.machines.batch import Batch, TrialSlot, seed_of
from hypertare.machines.emulated import EmulatedMachine, Output

if TYPE_CHECKING:
    from hypertare.engine.session import Session

_GROWTH = 0.5
"""Boots of a further wave, as a share of those so far: few waves, and few boots too many."""


class Waves:
    """Carries a design out until every cell is precise, at its limit, or time is up.

    An earlier part of the run enters trial by trial when its turn comes, so that every decision is the
    same.
    """

    def __init__(
        self,
        session: Session,
        machine: EmulatedMachine,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.study = session.prepared.study
        self.design = session.prepared.design
        self.machine = machine
        self.observer = session.observer
        self.resources = session.on
        self.clock = clock
        self.recorder = session.recorder
        self.cells = CellTracker(session)
        self.numbers = Numbers()
        self._stored = {
            one.planned.id: one for one in session.store.trials() if one.planned.of_cell
        }
        self._known_benches = Counter(boot for boot, _ in session.store.benches())
        self._booted = [0] * len(self.design.plots)
        self._host_s: list[float] = []
        self._waiting: set[object] = set()
        self._started = clock()

    def run(self) -> bool:
        """Works until nothing is left to do.

        Returns:
            Whether every cell came to its end; `False` when the time limit ended the run.
        """
        self._started = self.clock()
        for wave in itertools.count():
            if not self.cells.open():
                return True
            if not self._carry_out(self._wave(wave)):
                return False
            for key in self.cells.open():
                self.cells.decide(key)
        return True

    def _carry_out(self, boots: Sequence[Batch]) -> bool:
        """Takes a wave in, in its order; `False` when the time limit ended it."""
        missing = [batch for batch in boots if not self._is_stored(batch)]
        self._waiting = {batch.machine for batch in missing}
        of = len(self._waiting)
        self._report_boots(of)
        with closing(self.machine.run(missing)) as outputs:
            loading.begin()
            for batch in boots:
                if self._is_stored(batch):
                    for place in batch.places:
                        self.cells.enter(place, self._stored[place.planned.id])
                    continue
                if self.clock() - self._started >= self.study.design.time_limit:
                    return False
                output = next(outputs)
                self._waiting.discard(batch.machine)
                self._take_in(batch, output)
                self._report_boots(of)
        return True

    def _report_boots(self, of: int) -> None:
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
        return [replace(one, places=tuple(map(self.numbers.placed, one.places))) for one in boots]

    def _boots_wanted(self, plot: int) -> int:
        """At first as many as the least number of trials needs, then half as many again."""
        if not self.cells.open(plot):
            return 0
        least, most = boots_of_plot(self.study)
        done = self._booted[plot]
        return max(1, min(math.ceil(done * _GROWTH), most - done)) if done else least

    def _boot(self, index: int) -> Iterator[Batch]:
        """One boot: warm-ups of every open cell of the plot, then its blocks. Of many cells it is several
        boots, each with cells of its own (`design.trials_per_boot`).

        Its trials of different classes of PC boot apart, with the same seed: they are one block still.
        """
        plot, replicate = self.cells.live_plot(index), self._booted[index]
        self._booted[index] += 1
        for cut, keys in enumerate(self.cells.cut(index, replicate)):
            boot = self.numbers.new_boot()
            seed = seed_of(self.design.seed, plot.levels, replicate, cut)
            places = tuple(self._places(keys, boot, replicate))
            for part, of_class in enumerate(batches.parts(places)):
                yield batches.make(
                    self.recorder.file, plot, boot, seed, of_class, self.resources, part
                )

    def _places(self, keys: Sequence[Key], boot: int, replicate: int) -> Iterator[TrialSlot]:
        """Yields the places of a boot's trials. Boots of other plots with the same seed have the same
        order.
        """
        for count, (key, kind) in enumerate(self._blocks(keys, replicate)):
            block = self.numbers.new_block()
            yield from self.cells.places(key, block, boot, kind, replicate, count)

    def _blocks(self, keys: Sequence[Key], replicate: int) -> Iterator[tuple[Key, Kind]]:
        of_cell, most = {key.cell: key for key in keys}, self.study.design.max_trials
        before = replicate * self.study.design.blocks_per_boot
        for key in keys:
            if self.cells.warms_up(key):
                for _ in range(self.study.design.warmup):
                    yield key, "warmup"
        for repetition in range(self.study.design.blocks_per_boot):
            # The boot that reaches the limit ends there; one after it makes up for trials that failed.
            if before < most <= before + repetition:
                return
            for cell in self.design.cell_order(replicate, repetition):
                if cell in of_cell:
                    yield of_cell[cell], "measured"

    # --- what comes out

    def _take_in(self, batch: Batch, output: Output) -> None:
        if not output.reused:
            self._host_s.append(output.seconds)
        known = batch.part < self._known_benches[batch.boot]
        # Of a batch that was being written down when the run was interrupted some trials are stored.
        ended = self.recorder.boot(batch, output, bench_known=known, stored=self._stored)
        for place, finished in ended:
            self.cells.enter(place, finished)
            if place.planned.id not in self._stored:
                self.observer.end(finished, self.remaining_s())

    # --- a run that goes on

    def _is_stored(self, batch: Batch) -> bool:
        for place in batch.places:
            planned, stored = place.planned, self._stored.get(place.planned.id)
            if stored is None:
                return False
            known = stored.planned
            if (known.platform, known.cell) != (planned.platform, planned.cell):
                raise InputError(
                    f"Trial {planned.id} of this run is another one than the study plans now: the run "
                    "was begun by another version of hypertare.",
                    "Go on with that version, or start anew; in virtual time nothing is measured twice.",
                )
        return True

    # --- time

    def remaining_s(self) -> float:
        """Most time of this host that the rest may take."""
        host_s = self._host_s or [boot_s(self.study, self.design)]
        _, most = boots_of_plot(self.study)
        plots = {key.plot for key in self.cells.open()}
        later = sum(max(0, most - self._booted[plot]) for plot in plots)
        each = len(pc.classes(self.study)) * cuts(self.study, self.design)
        boots = len(self._waiting) + later * each
        rounds = math.ceil(boots / self.machine.jobs)
        left = self.study.design.time_limit - (self.clock() - self._started)
        return max(0.0, min(rounds * sum(host_s) / len(host_s), left))
