"""Asked blocks on a machine that takes whole boots: a boot has a few trials of one block.

Boots that do not depend on each other run at the same time. All boots of a block have the same seed: what
chance moves at their start is the same for all its trials, and falls out of their ratios. Every block has
another seed, so blocks are replicates. Nothing depends on how many boots run at once, or which of them
ends first.

The first trial of a boot may differ from those after it, so the order within a boot is random, and where a
verdict rests on few blocks (`apart`) every trial has a boot of its own.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass

from hypertare.base.variables import Cell, key
from hypertare.design.design import Variant, WholePlot, is_hard, name_nodes
from hypertare.design.trials import Ask, FinishedTrial, Kind
from hypertare.engine.expected import most_asked_of_boot
from hypertare.engine.trial_runner import Asking, TrialRunner, levels_of
from hypertare.machines import batch as batches
from hypertare.machines.batch import Batch, TrialSlot, seed_of
from hypertare.machines.emulated import EmulatedMachine, Output
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


class BatchBackend(TrialRunner):
    """Measures asked blocks in boots of a few trials each."""

    retakes = True
    """An interrupted block is measured again, with the same seed."""

    def __init__(
        self, asking: Asking, machine: EmulatedMachine, clock: Callable[[], float] = time.monotonic
    ) -> None:
        super().__init__(asking, clock)
        self.machine = machine
        self._most = most_asked_of_boot(asking.recorder.study)

    def measure(
        self, many: Sequence[Sequence[Ask]], kind: Kind, *, apart: bool
    ) -> list[list[FinishedTrial]]:
        most = 1 if apart else self._most
        shared = [
            asked
            for number, asks in enumerate(many)
            for asked in self._shared(asks, kind, number, most)
        ]
        answers = self._measured(shared)
        return [
            [answers[number, place] for place in range(len(asks))]
            for number, asks in enumerate(many)
        ]

    def _shared(
        self, asks: Sequence[Ask], kind: Kind, number: int, most: int
    ) -> Iterator[list[_Asked]]:
        """Divides a block, in random order, into boots: each has asks that need the same machine."""
        block = self.numbers.new_block()
        machines: dict[object, list[_Asked]] = {}
        for place in self._shuffled(len(asks), block):
            asked = _Asked(asks[place], block, kind, (number, place))
            machines.setdefault(self._machine_of(asked), []).append(asked)
        for same in machines.values():
            boots = math.ceil(len(same) / most)
            yield from (same[first::boots] for first in range(boots))

    def _machine_of(self, asked: _Asked) -> object:
        """Equal for asks of a block that may share a boot, since they need the same machine.

        With a replicate of its own an ask is alone: what a search finds must not depend on others.
        """
        if asked.ask.replicate is not None:
            return asked.key
        return self._guests_of(asked.ask), key(_hard(asked.ask))

    def _measured(self, shared: Sequence[Sequence[_Asked]]) -> dict[tuple[int, int], FinishedTrial]:
        """Carries these boots out, and records their trials block by block.

        A trial that ends its machine or its bench says nothing of those after it: the trials of such a
        boot are measured again, each in a boot of its own, and later blocks wait for them. So only the last
        block of an interrupted run can be incomplete.
        """
        answers: dict[tuple[int, int], FinishedTrial] = {}
        spoilt: list[_Asked] = []
        waiting: list[tuple[Batch, Output]] = []
        with closing(self._carried_out(shared)) as ended:
            for asked, batch, output in ended:
                if len(asked) > 1 and batches.is_spoilt(batch, output):
                    why = output.error or "a node of its bench was gone before the last of them"
                    self.recorder.warn(
                        f"a machine that {len(asked)} trials shared was lost, and each is measured "
                        f"again by itself: {why}"
                    )
                    spoilt += asked
                elif spoilt:
                    waiting.append((batch, output))
                else:
                    answers |= self._take_in(batch, output)
        if spoilt:
            with closing(self._carried_out([[one] for one in spoilt])) as ended:
                waiting += [(batch, output) for _, batch, output in ended]
        for batch, output in sorted(waiting, key=lambda one: one[0].places[0].planned.block):
            answers |= self._take_in(batch, output)
        return answers

    def _carried_out(
        self, shared: Sequence[Sequence[_Asked]]
    ) -> Generator[tuple[Sequence[_Asked], Batch, Output], None, None]:
        """Yields the boots that ended, in their order; closing it stops those that run."""
        boots = [self._boot_of(asked) for asked in shared]
        with closing(self.machine.run(boots)) as outputs:
            for done, (asked, batch, output) in enumerate(
                zip(shared, boots, outputs, strict=True), start=1
            ):
                yield asked, batch, output
                left_s = self.left_s()
                self.recorder.observer.boots(done, len(boots), self.machine.jobs, left_s)

    def _boot_of(self, shared: Sequence[_Asked]) -> Batch:
        """Makes the boot of these trials, with warm-ups of each before them."""
        boot, first = self.numbers.new_boot(), shared[0]
        platforms = dict.fromkeys((BASELINE, self.asking.platform))
        variants = tuple(
            name_nodes([Variant(platform) for platform in platforms], self._guests_of(first.ask))
        )
        plot = WholePlot(_hard(first.ask), variants)
        kinds: list[Kind] = ["warmup"] * self._warmup
        slots = [
            TrialSlot(
                variants[-1],
                self._planned(asked.ask, asked.block, boot, kind),
                levels_of(asked.ask),
                asked.key,
            )
            for kind in (*kinds, first.kind)
            for asked in shared
        ]
        replicate = first.block if first.ask.replicate is None else first.ask.replicate
        seed = seed_of(self.asking.seed, _NUMBERED, replicate)
        return batches.make(self.recorder.file, plot, boot, seed, slots, self.asking.on)

    def _guests_of(self, ask: Ask) -> int:
        return self.recorder.file.cell(levels_of(ask)).bench_guests

    def _take_in(self, batch: Batch, output: Output) -> dict[tuple[int, int], FinishedTrial]:
        """Records the trials of a boot and returns those that were asked for: each ask's last one."""
        answers = {}
        warmups = len(batch.places) * self._warmup // (1 + self._warmup)
        for number, (place, finished) in enumerate(self.recorder.boot(batch, output)):
            self.recorder.observer.begin(place.planned)
            self._answer(finished, asked=number >= warmups)
            answers[place.key] = finished
        return answers


def _hard(ask: Ask) -> Cell:
    return {path: level for path, level in levels_of(ask).items() if is_hard(path)}
