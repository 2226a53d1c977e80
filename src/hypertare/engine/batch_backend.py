"""Asked blocks on a machine that takes whole boots: a boot has a few trials of one block.

Boots that do not depend on each other run at the same time. All boots of a block have the same seed: what
chance moves at their start is the same for all its trials, and falls out of their ratios. Every block has
another seed, so blocks are replicates. Nothing depends on how many boots run at once, or which of them
ends first.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from hypertare.base.level import Cell
from hypertare.design.asks import Ask
from hypertare.design.design import Variant, WholePlot, is_hard, name_nodes
from hypertare.design.trials import FinishedTrial, Kind
from hypertare.engine.boots import BatchMachine, Boots
from hypertare.engine.expected import TRIALS_OF_A_BOOT
from hypertare.engine.trial_runner import Asking, levels_of
from hypertare.machines import batch as batches
from hypertare.machines.batch import Batch, TrialSlot, seed_of
from hypertare.machines.emulated import Output
from hypertare.study import BASELINE

_NUMBERED = {"asked": "block"}
"""Keeps the seeds of asked blocks apart from those of a campaign's boots."""


@dataclass(frozen=True)
class _Asked:
    """An ask of a block; `key` says which of all: the place of its block, and its place in the block."""

    ask: Ask
    block: int
    kind: Kind
    key: tuple[int, int]


class BatchBackend:
    """Measures asked blocks in boots of a few trials each."""

    retakes = True
    """An interrupted block is measured again, with the same seed."""

    def __init__(self, asking: Asking, machine: BatchMachine) -> None:
        self.asking = asking
        self.boots = Boots(machine, asking.recorder)
        self._warmup = asking.warmup
        self._most = min(
            asking.recorder.study.design.trials_per_boot or TRIALS_OF_A_BOOT, TRIALS_OF_A_BOOT
        )

    def renew(self) -> None:
        """Does nothing: no two blocks share a boot."""

    def close(self) -> None:
        """Does nothing: no boot outlives its block."""

    def measure(
        self, many: Sequence[Sequence[Ask]], kind: Kind, *, apart: bool
    ) -> list[list[FinishedTrial]]:
        """The answers of each block, in the order of its asks.

        A setting that ends its machine says nothing of those beside it: the trials of such a boot are
        measured again, each in a boot of its own.
        """
        together = [
            shared
            for number, asks in enumerate(many)
            for shared in self._shared(asks, kind, number)
        ]
        answers, lost = self._measured(together)
        if lost:
            alone, _ = self._measured([[asked] for shared in lost for asked in shared])
            answers |= alone
        return [
            [answers[number, place] for place in range(len(asks))]
            for number, asks in enumerate(many)
        ]

    def _shared(self, asks: Sequence[Ask], kind: Kind, number: int) -> Iterator[list[_Asked]]:
        """Divides a block, in random order, into boots: each has asks that need the same machine."""
        block = self.asking.numbers.new_block()
        machines: dict[object, list[_Asked]] = {}
        for place in self.asking.shuffled(len(asks), block):
            asked = _Asked(asks[place], block, kind, (number, place))
            machines.setdefault(_boot_for(asks[place], place), []).append(asked)
        for same in machines.values():
            boots = math.ceil(len(same) / self._most)
            yield from (same[first::boots] for first in range(boots))

    def _measured(
        self, shared: Sequence[Sequence[_Asked]]
    ) -> tuple[dict[tuple[int, int], FinishedTrial], list[Sequence[_Asked]]]:
        """Carries these boots out.

        Returns:
            The answers, and the asks of shared boots that came to no end, of which nothing is recorded.
        """
        answers: dict[tuple[int, int], FinishedTrial] = {}
        lost: list[Sequence[_Asked]] = []
        boots = [self._boot_of(asked) for asked in shared]
        with self.boots.outputs(boots) as outputs:
            for done, (batch, asked, output) in enumerate(
                zip(boots, shared, outputs, strict=True), start=1
            ):
                if len(asked) > 1 and batches.is_lost(batch, output):
                    lost.append(asked)
                else:
                    answers |= self._take_in(batch, output)
                self.asking.recorder.observer.boots(
                    done, len(boots), self.boots.jobs, self.asking.left_s()
                )
        return answers, lost

    def _boot_of(self, shared: Sequence[_Asked]) -> Batch:
        """Makes the boot of these trials, with warm-ups before them."""
        asking, boot, first = self.asking, self.asking.numbers.new_boot(), shared[0]
        plot, variant = self._plot(first.ask)

        def places(asks: Iterable[_Asked], kind: Kind) -> list[TrialSlot]:
            return [
                TrialSlot(
                    variant,
                    asking.planned(one.ask, one.block, boot, kind),
                    levels_of(one.ask),
                    one.key,
                )
                for one in asks
            ]

        slots = places([first] * self._warmup, "warmup") + places(shared, first.kind)
        replicate = first.block if first.ask.replicate is None else first.ask.replicate
        seed = seed_of(asking.seed, _NUMBERED, replicate)
        return batches.make(asking.recorder.file, plot, boot, seed, slots, asking.on)

    def _plot(self, ask: Ask) -> tuple[WholePlot, Variant]:
        platforms = dict.fromkeys((BASELINE, self.asking.platform))
        guests = self.asking.recorder.file.cell(levels_of(ask)).bench_guests
        variants = tuple(name_nodes([Variant(platform) for platform in platforms], guests))
        return WholePlot(_hard(ask), variants), variants[-1]

    def _take_in(self, batch: Batch, output: Output) -> dict[tuple[int, int], FinishedTrial]:
        """Records the trials of a boot and returns those that were asked for: each ask's last one."""
        answers = {}
        for place, finished in self.boots.take_in(batch, output):
            self.asking.recorder.observer.begin(place.planned)
            answers[place.key] = self.asking.answer(finished)
        return answers


def _hard(ask: Ask) -> Cell:
    return {path: level for path, level in levels_of(ask).items() if is_hard(path)}


def _boot_for(ask: Ask, place: int) -> object:
    """Equal for asks of a block that may share a boot, since they need the same machine.

    With a replicate of its own an ask is alone: what a search finds must not depend on others beside it.
    """
    if ask.replicate is not None:
        return place
    return repr(sorted((path, repr(level)) for path, level in _hard(ask).items()))
