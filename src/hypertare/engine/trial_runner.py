"""Trials for whoever asks: blocks of settings, each setting measured once, close together.

A campaign knows its design before it starts. A tuning or a search does not: it looks at what came
back and asks for more. Everything measured goes to the journal at once, and answers that an
interrupted run has in its journal are not measured again.

`TrialRunner` is who is asked, and recalls; its two kinds measure: `step_backend` on a machine that
takes one trial after the other, `batch_backend` on one that takes whole boots.
"""

from __future__ import annotations

import random
import time
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Self, cast

from hypertare.base.level import Cell
from hypertare.design import planner
from hypertare.design.asks import Ask
from hypertare.design.trials import FinishedTrial, Kind, PlannedTrial
from hypertare.engine.numbers import Numbers
from hypertare.engine.trial_recorder import TrialRecorder


@dataclass(frozen=True)
class Asking:
    """What is asked for: trials of one workload on one platform; `seed` decides their order.

    With `first`, trials, blocks and boots are numbered from there on, and nothing is recalled: whoever
    asks knows what the journal holds.
    """

    workload: str
    platform: str
    recorder: TrialRecorder
    on: planner.MachineResources
    seed: int
    first: int | None = None


def levels_of(ask: Ask) -> Cell:
    """Returns the levels that an ask puts into the study. None is a level too: the setting is absent."""
    return cast(Cell, dict(ask.levels))


class TrialRunner(ABC):
    """Runs asked blocks. Use as a context manager.

    `trials` counts the answers so far. Who asks sets `left_s`, which returns the seconds that it expects to
    go on.
    """

    retakes: ClassVar[bool]
    """Whether an interrupted block is measured again under its number."""

    def __init__(self, asking: Asking, clock: Callable[[], float] = time.monotonic) -> None:
        self.asking = asking
        self.recorder = asking.recorder
        self.clock = clock
        self.trials = 0
        self.left_s: Callable[[], float] = lambda: 0.0
        self._recalled_s = 0.0
        stored = self.recorder.journal.trials() if asking.first is None else []
        kept = [trial for trial in stored if trial.planned.of_cell]
        self._kept: dict[int, list[FinishedTrial]] = defaultdict(list)
        for trial in kept:
            self._kept[trial.planned.block].append(trial)
        start = asking.first or 0
        self.numbers = (
            Numbers.after(one.planned for one in kept) if kept else Numbers(start, start, start)
        )
        # Blocks are counted anew: those that are recalled have their numbers already.
        self.numbers.block = start

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @abstractmethod
    def measure(
        self, many: Sequence[Sequence[Ask]], kind: Kind, *, apart: bool
    ) -> list[list[FinishedTrial]]:
        """The answers of each block, in the order of its asks."""

    def renew(self) -> None:  # noqa: B027 (where no boot outlives its block, nothing is to be done)
        """Ends the current boot, so that the next block shares none with earlier blocks."""

    def close(self) -> None:  # noqa: B027
        """Ends what is left of the last block."""

    def block(self, asks: Sequence[Ask], kind: Kind = "measured") -> list[FinishedTrial]:
        """One trial of each; answers stand in the order of the asks."""
        return self.blocks([asks], kind)[0]

    def blocks(
        self, many: Sequence[Sequence[Ask]], kind: Kind = "measured", *, apart: bool = False
    ) -> list[list[FinishedTrial]]:
        """Several blocks that do not depend on each other's answers, so that they may run at once.

        `apart`: a block that needs several benches shares none of them with another block, and where whole
        boots are asked for every trial has its own.
        """
        answers = [self._recall(asks, kind) for asks in many]
        missing = [asks for asks, known in zip(many, answers, strict=True) if known is None]
        measured = iter(self.measure(missing, kind, apart=apart))
        return [next(measured) if known is None else known for known in answers]

    def now(self) -> float:
        """Seconds by a clock that also went on while an earlier run measured what was recalled."""
        return self.clock() + self._recalled_s

    # --- for those who measure

    @property
    def _warmup(self) -> int:
        """Warm-ups of each setting: only commands find cold caches; streams leave their beginnings out."""
        study = self.recorder.study
        return study.design.warmup if study.workloads[self.asking.workload].kind.warms_up else 0

    def _planned(self, ask: Ask, block: int, boot: int, kind: Kind) -> PlannedTrial:
        return self.numbers.numbered(self._wanted(ask, kind, block, boot))

    def _wanted(self, ask: Ask, kind: Kind, block: int = 0, boot: int = 0) -> PlannedTrial:
        """An asked trial, not yet numbered."""
        cell: Cell = {"workload": self.asking.workload, **ask.cell}
        return PlannedTrial(0, block, boot, self.asking.platform, cell, kind)

    def _shuffled(self, count: int, block: int) -> list[int]:
        order = list(range(count))
        random.Random(f"{self.asking.seed}/asked/{block}").shuffle(order)
        return order

    def _answer(self, finished: FinishedTrial, *, asked: bool) -> FinishedTrial:
        """A warm-up before what was asked is no answer, and costs nothing of a budget in trials."""
        self.trials += asked
        self.recorder.observer.end(finished, self.left_s())
        return finished

    # --- what an interrupted run left

    def _recall(self, asks: Sequence[Ask], kind: Kind) -> list[FinishedTrial] | None:
        """Returns the answers of a whole block from the journal; None if it does not hold them.

        A resumed run makes the same requests in the same order, so the next stored block answers the next
        request. Blocks that did not end are passed over: their trials would not be close together.
        """
        while self._kept:
            number = min(self._kept)
            wanted = [self._wanted(ask, kind) for ask in asks]
            known = _matched(wanted, self._kept.pop(number))
            if known is not None:
                self.numbers.block = number + 1
                self.trials += len(known)
                self._recalled_s += sum(trial.elapsed_s for trial in known)
                return known
            if not self.retakes:
                self.numbers.block = number + 1
        return None


def _matched(
    asked: Sequence[PlannedTrial], trials: Sequence[FinishedTrial]
) -> list[FinishedTrial] | None:
    """Returns one stored trial for each asked trial, in their order; None if any has no match."""
    left = list(trials)
    found: list[FinishedTrial] = []
    for planned in asked:
        mine = [t for t in left if (t.planned.cell, t.planned.kind) == (planned.cell, planned.kind)]
        if not mine:
            return None
        # The last, for a block that was interrupted may have been measured anew.
        left.remove(mine[-1])
        found.append(mine[-1])
    return found
