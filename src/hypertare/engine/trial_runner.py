"""Trials for whoever asks: blocks of settings, each setting measured once, close together.

A campaign knows its design before it starts. A tuning or a search does not: it looks at what came back
and asks for more. Everything measured goes to the journal at once, and answers that an interrupted run
has in its journal are not measured again.

`TrialRunner` is who is asked, and recalls; one of two backends measures: `StepBackend` on a machine
that takes one trial after the other, on benches that stand, `batch_backend` on one that takes whole
boots. A block of `StepBackend` begins with the settings that fit the bench that stands, so that two
settings that need two benches run as ABBA: half as many boots, and a steady drift cancels.
"""

from __future__ import annotations

import random
import time
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Self, cast

from hypertare.base.variables import Cell, key
from hypertare.design import planner
from hypertare.design.design import MAX_GUESTS, Variant, WholePlot, is_hard, name_nodes
from hypertare.design.trials import Ask, FinishedTrial, Kind, PlannedTrial
from hypertare.engine.benches import Benches
from hypertare.engine.trial_recorder import Numbers, TrialRecorder
from hypertare.machines.batch import TrialSlot
from hypertare.machines.steps import HostAgent
from hypertare.platforms.registry import BASELINE, find, is_own_setting


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


class StepBackend(TrialRunner):
    """Measures asked blocks, in the order `measure` -> `_block` -> `_stand` (the bench that the
    settings need) -> `_trial`.
    """

    retakes = False

    def __init__(
        self, asking: Asking, machine: HostAgent, clock: Callable[[], float] = time.monotonic
    ) -> None:
        super().__init__(asking, clock)
        self.benches = Benches(machine, asking.recorder, asking.on, clock)
        self._most_blocks = asking.recorder.study.design.blocks_per_boot
        self._blocks_on_bench = 0
        self._boot = 0

    def measure(
        self, many: Sequence[Sequence[Ask]], kind: Kind, *, apart: bool
    ) -> list[list[FinishedTrial]]:
        return [self._block(asks, kind, apart) for asks in many]

    def renew(self) -> None:
        """Removes the bench if something boots on it. Without a boot a new bench would be no new sample."""
        if self.benches.plot is not None and self.benches.plot.boots:
            self.close()

    def close(self) -> None:
        self.benches.down()
        self._blocks_on_bench = 0

    def _block(self, asks: Sequence[Ask], kind: Kind, apart: bool) -> list[FinishedTrial]:
        """One trial of each, in random order but for the bench that is up."""
        block = self.numbers.new_block()
        several = len(self._grouped(asks, block)) > 1
        if apart and several:
            self.close()
        elif self._blocks_on_bench >= self._most_blocks:
            self.renew()
        answers: dict[int, FinishedTrial] = {}
        with self.benches.others.block(block):
            for hard, places in self._grouped(asks, block):
                own = [_guest_only(levels_of(asks[place])) for place in places]
                wanted = list({key(one): one for one in own}.values())
                for place in places:
                    error = self._stand(hard, wanted)
                    answers[place] = self._trial(asks[place], block, kind, error)
        self._blocks_on_bench += 1
        return [answers[place] for place in range(len(asks))]

    def _grouped(self, asks: Sequence[Ask], block: int) -> list[tuple[Cell, list[int]]]:
        """Places of the asks by the bench that they need, in random order but for the bench that is up."""
        groups: list[tuple[Cell, dict[object, Cell], list[int]]] = []
        for place in self._shuffled(len(asks), block):
            hard, own = _hard(levels_of(asks[place])), _guest_only(levels_of(asks[place]))
            for known, owns, places in groups:
                if key(known) == key(hard) and (key(own) in owns or len(owns) < MAX_GUESTS):
                    owns[key(own)] = own
                    places.append(place)
                    break
            else:
                groups.append((hard, {key(own): own}, [place]))
        groups.sort(key=lambda group: not self._stands(group[0], group[1].values()))
        return [(hard, places) for hard, _, places in groups]

    # --- the bench

    def _stands(self, hard: Cell, wanted: Iterable[Cell]) -> bool:
        if self.benches.plot is None or key(self.benches.plot.levels) != key(hard):
            return False
        there = [key(variant.levels) for variant in self._variants(self.benches.plot)]
        return all(key(own) in there for own in wanted)

    def _variants(self, plot: WholePlot) -> list[Variant]:
        return [v for v in plot.variants if v.platform == self.asking.platform]

    def _stand(self, hard: Cell, wanted: Sequence[Cell]) -> str | None:
        """Makes the bench that these settings need, unless it is up, and warms it up.

        Returns:
            Why it could not be had.
        """
        if self._stands(hard, wanted):
            return None
        self.close()
        plot = self._plot(hard, wanted)
        self._boot = self.numbers.new_boot()
        self.recorder.observer.bench(self._boot, plot)
        failure = self.benches.make(plot, self._boot)
        return self._warm_up(plot) if failure is None else failure.error

    def _plot(self, hard: Cell, wanted: Sequence[Cell]) -> WholePlot:
        platform = self.asking.platform
        others = [] if find(platform).is_baseline else [Variant(platform, own) for own in wanted]
        guests = self.recorder.file.cell(hard).bench_guests
        return WholePlot(hard, tuple(name_nodes([Variant(BASELINE), *others], guests)))

    def _warm_up(self, plot: WholePlot) -> str | None:
        """Runs the warm-ups of a bench as one block; returns the error if the bench is lost meanwhile."""
        for variant in self._variants(plot):
            for _ in range(self._warmup):
                levels = {**plot.levels, **variant.levels}
                block = self.numbers.block
                warm = self._trial(Ask(levels, levels), block, "warmup", None, asked=False)
                if self.benches.plot is None:
                    return warm.error
        self.numbers.new_block()
        return None

    # --- a trial

    def _trial(
        self, ask: Ask, block: int, kind: Kind, error: str | None, *, asked: bool = True
    ) -> FinishedTrial:
        """One trial; with `error`, one that could not even begin."""
        planned = self._planned(ask, block, self._boot, kind)
        plot, levels = self.benches.plot, levels_of(ask)
        if error is not None or plot is None:
            self.recorder.observer.begin(planned)
            place = TrialSlot(Variant(planned.platform), planned, levels)
            return self._answer(self.benches.fail(place, str(error)), asked=asked)
        own = _guest_only(levels)
        variant = next(v for v in self._variants(plot) if key(v.levels) == key(own))
        ran = self.benches.run(TrialSlot(variant, planned, levels), plot)
        finished = self._answer(ran, asked=asked)
        if self.benches.lost:
            # The other guests of the bench go with it; the next trial makes it anew.
            self.close()
        return finished


def _guest_only(levels: Cell) -> Cell:
    return {path: level for path, level in levels.items() if is_own_setting(path)}


def _hard(levels: Cell) -> Cell:
    return {
        path: level for path, level in levels.items() if is_hard(path) and not is_own_setting(path)
    }
