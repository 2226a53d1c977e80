"""Asked blocks on a machine that takes whole boots: every trial has one of its own.

So all trials of a block, and of blocks that do not depend on each other, run at the same time. The
trials of a block share their seed: what chance moves is the same for all of them, and falls out of
their ratios. Every block has another seed, so blocks are replicates. Nothing depends on how many
boots run at once, or which of them ends first.
"""

from __future__ import annotations

from collections.abc import Sequence

from hypertare.base.level import Cell
from hypertare.design.asks import Ask
from hypertare.design.design import Variant, WholePlot, is_hard, name_nodes
from hypertare.design.trials import FinishedTrial, Kind
from hypertare.engine.boots import BatchMachine, Boots
from hypertare.engine.trial_runner import Asking, levels_of
from hypertare.machines import batch as batches
from hypertare.machines.batch import Batch, TrialSlot, seed_of
from hypertare.machines.emulated import Output
from hypertare.study import BASELINE

_NUMBERED = {"asked": "block"}
"""Keeps the seeds of asked blocks apart from those of a campaign's boots."""


class BatchBackend:
    """Measures asked blocks in boots of one trial each."""

    retakes = True
    """An interrupted block is measured again, with the same seed."""

    def __init__(self, asking: Asking, machine: BatchMachine) -> None:
        self.asking = asking
        self.boots = Boots(machine, asking.recorder)
        self._warmup = asking.warmup

    def renew(self) -> None:
        """Does nothing: every trial has a boot of its own."""

    def close(self) -> None:
        """Does nothing: no boot outlives its block."""

    def measure(
        self, many: Sequence[Sequence[Ask]], kind: Kind, *, apart: bool
    ) -> list[list[FinishedTrial]]:
        """The answers of each block, in the order of its asks."""
        asking = self.asking
        answers: list[list[FinishedTrial | None]] = [[None] * len(asks) for asks in many]
        boots = [
            self._boot_of(asks[place], block, kind, (number, place))
            for number, asks in enumerate(many)
            for block in [asking.numbers.new_block()]
            for place in asking.shuffled(len(asks), block)
        ]
        with self.boots.outputs(boots) as outputs:
            for done, (batch, output) in enumerate(zip(boots, outputs, strict=True), start=1):
                number, place = batch.places[-1].key
                answers[number][place] = self._take_in(batch, output)
                asking.recorder.observer.boots(done, len(boots), self.boots.jobs, asking.left_s())
        return [[one for one in block if one is not None] for block in answers]

    def _boot_of(self, ask: Ask, block: int, kind: Kind, key: tuple[int, int]) -> Batch:
        """Makes the boot of one asked trial, with its warm-ups before it."""
        asking, boot = self.asking, self.asking.numbers.new_boot()
        plot, variant = self._plot(ask)
        warmups: list[Kind] = ["warmup"] * self._warmup
        places = [
            TrialSlot(variant, asking.planned(ask, block, boot, one), levels_of(ask), key)
            for one in (*warmups, kind)
        ]
        seed = seed_of(asking.seed, _NUMBERED, block if ask.replicate is None else ask.replicate)
        return batches.make(asking.recorder.file, plot, boot, seed, places, asking.on)

    def _plot(self, ask: Ask) -> tuple[WholePlot, Variant]:
        hard: Cell = {path: level for path, level in levels_of(ask).items() if is_hard(path)}
        platforms = dict.fromkeys((BASELINE, self.asking.platform))
        guests = self.asking.recorder.file.cell(levels_of(ask)).bench_guests
        variants = tuple(name_nodes([Variant(platform) for platform in platforms], guests))
        return WholePlot(hard, variants), variants[-1]

    def _take_in(self, batch: Batch, output: Output) -> FinishedTrial:
        """Records the trials of a boot and returns the asked one, which is the last."""
        for place, finished in self.boots.take_in(batch, output):
            self.asking.recorder.observer.begin(place.planned)
            self.asking.answer(finished)
        return finished
