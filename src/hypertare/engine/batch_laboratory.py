"""A laboratory whose machine takes whole boots: nothing can enter an emulated machine once it runs.

Every asked trial has a boot of its own, so all those of a block, and of blocks that do not depend on
each other, run at the same time. The trials of a block share their seed: what chance moves is the
same for all of them, and falls out of their ratios. Every block has another seed, so blocks are
replicates. Nothing depends on how many boots run at once, or which of them ends first.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import closing

from hypertare.base.level import Cell
from hypertare.design import planner
from hypertare.design.asks import Ask
from hypertare.design.design import Plot, Variant, is_hard, name_nodes
from hypertare.design.trials import FinishedTrial, Kind
from hypertare.engine.batch_campaign import BatchMachine, BatchObserver
from hypertare.engine.campaign import Journal
from hypertare.engine.laboratory import Laboratory
from hypertare.machines import batch as batches
from hypertare.machines.batch import Batch, Place, seed_of
from hypertare.machines.emulated import Output
from hypertare.study import BASELINE, StudyFile

_NUMBERED = {"asked": "block"}
"""Keeps the seeds of asked blocks apart from those of a campaign's boots."""


class BatchLaboratory(Laboratory):
    """Asks an emulated machine for boots of one trial each."""

    def __init__(
        self,
        file: StudyFile,
        workload: str,
        platform: str,
        machine: BatchMachine,
        journal: Journal,
        observer: BatchObserver,
        surroundings: planner.Surroundings,
        seed: int,
        clock: Callable[[], float] = time.monotonic,
        first: int | None = None,
    ) -> None:
        super().__init__(
            file, workload, platform, journal, observer, surroundings, seed, clock, first
        )
        self.observer: BatchObserver = observer
        self.machine = machine

    def renew(self) -> None:
        """Every trial has a boot of its own anyway."""

    def _passed_over(self, number: int) -> None:
        """A block that was interrupted is taken anew with the seed that it had."""

    def _measure_blocks(
        self, many: Sequence[Sequence[Ask]], kind: Kind, *, apart: bool
    ) -> list[list[FinishedTrial]]:
        answers: list[list[FinishedTrial | None]] = [[None] * len(asks) for asks in many]
        boots = [
            self._boot_of(asks[place], block, kind, (number, place))
            for number, asks in enumerate(many)
            for block in [self._new_block()]
            for place in self._shuffled(len(asks), block)
        ]
        # However this ends, also by Ctrl-C, no machine goes on.
        with closing(self.machine.run(boots)) as outputs:
            for done, (batch, output) in enumerate(zip(boots, outputs, strict=True), start=1):
                number, place = batch.places[-1].key
                answers[number][place] = self._take_in(batch, output)
                self.observer.boots(done, len(boots), self.machine.jobs, self.left_s())
        return [[one for one in block if one is not None] for block in answers]

    def _boot_of(self, ask: Ask, block: int, kind: Kind, key: tuple[int, int]) -> Batch:
        """Warm-ups where there are any, then the one trial."""
        plot, variant = self._plot(ask)
        self._boot += 1
        warmups: list[Kind] = ["warmup"] * self._warmup
        places = [
            Place(variant, self._planned(ask, block, self._boot, one), ask.levels, key)
            for one in (*warmups, kind)
        ]
        seed = seed_of(self.seed, _NUMBERED, block if ask.replicate is None else ask.replicate)
        return batches.make(self.file, plot, self._boot, seed, places, self.surroundings)

    def _plot(self, ask: Ask) -> tuple[Plot, Variant]:
        hard: Cell = {path: v for path, v in ask.levels.items() if v is not None and is_hard(path)}
        platforms = dict.fromkeys((BASELINE, self.platform))
        guests = self.file.cell(dict(ask.levels)).bench_guests
        variants = tuple(name_nodes([Variant(platform) for platform in platforms], guests))
        return Plot(hard, variants), variants[-1]

    def _take_in(self, batch: Batch, output: Output) -> FinishedTrial:
        """Writes down what a boot told; gives the asked trial, which is its last."""
        bench, trials = batches.tell(batch, output)
        self.journal.add_bench(batch.boot, bench)
        self._pass_on_logs(bench)
        for told in trials:
            self.observer.begin(told.place.planned)
            self._pass_on_logs(told.records)
            finished = self._note(
                told.place.planned,
                told.place.levels,
                told.place.variant.nodes,
                told.records,
                told.error,
                told.seconds,
                output.fingerprint,
            )
        return finished
