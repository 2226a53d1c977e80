"""Trials for whoever asks: blocks of settings, each setting measured once, close together.

A campaign knows its design before it starts. A tuner or a search does not: it looks at what came back
and asks for more. Everything measured goes to the journal at once, and answers that an interrupted
run has in its journal are not measured again.

`Laboratory` keeps the numbers and the journal. `BenchLaboratory` measures on a machine that takes one
trial after the other, in the order `block` -> `_stand` (the bench that the settings need) ->
`_measure`; `hypertare.engine.batch_laboratory` on one that takes whole boots.
"""

from __future__ import annotations

import random
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence

from hypertare.base.level import Cell, Level
from hypertare.design import line, planner
from hypertare.design.asks import Ask
from hypertare.design.design import MAX_GUESTS, Plot, Variant, is_hard, name_nodes
from hypertare.design.trials import FinishedTrial, Kind, PlannedTrial
from hypertare.engine.campaign import Journal, Machine, Observer
from hypertare.findings.outcome import outcome, warnings
from hypertare.protocol.records import BenchReady, Record, TrialEnd
from hypertare.study import BASELINE, GUEST_ONLY, StudyFile


class Laboratory(ABC):
    """Runs asked blocks of one workload on one platform. Use as a context manager.

    `trials` counts the answers given. `left_s`, set by whoever asks, tells how long it will go on
    asking. With `first` trials, blocks and boots are numbered from there on, and nothing is recalled:
    whoever asks knows what the journal holds.
    """

    def __init__(
        self,
        file: StudyFile,
        workload: str,
        platform: str,
        journal: Journal,
        observer: Observer,
        surroundings: planner.Surroundings,
        seed: int,
        clock: Callable[[], float] = time.monotonic,
        first: int | None = None,
    ) -> None:
        self.file = file
        self.workload = workload
        self.platform = platform
        self.journal = journal
        self.observer = observer
        self.surroundings = surroundings
        self.seed = seed
        self.clock = clock
        self.trials = 0
        self.left_s: Callable[[], float] = lambda: 0.0
        self.study = file.study()
        self._kind = self.study.workloads[workload].type
        warms_up = self.study.workloads[workload].kind.warms_up
        self._warmup = self.study.design.warmup if warms_up else 0
        self._kept = _blocks(
            one for one in journal.trials() if first is None and one.planned.of_cell
        )
        kept = [trial.planned for trials in self._kept.values() for trial in trials]
        self._next_block = first or 0
        self._next_id = max((planned.id + 1 for planned in kept), default=self._next_block)
        self._boot = max((planned.boot for planned in kept), default=self._next_block - 1)
        self._recalled_s = 0.0

    def __enter__(self) -> Laboratory:
        return self

    def __exit__(self, *_: object) -> None:
        self.renew()

    def block(self, asks: Sequence[Ask], kind: Kind = "measured") -> list[FinishedTrial]:
        """One trial of each; answers stand in the order of the asks."""
        return self.blocks([asks], kind)[0]

    def blocks(
        self, many: Sequence[Sequence[Ask]], kind: Kind = "measured", *, apart: bool = False
    ) -> list[list[FinishedTrial]]:
        """Several blocks that do not depend on each other's answers, so that they may run at once.

        `apart`: a block that needs several benches shares none of them with another block.
        """
        answers = [self._recall(asks, kind) for asks in many]
        missing = [asks for asks, known in zip(many, answers, strict=True) if known is None]
        measured = iter(self._measure_blocks(missing, kind, apart=apart))
        return [next(measured) if known is None else known for known in answers]

    @abstractmethod
    def _measure_blocks(
        self, many: Sequence[Sequence[Ask]], kind: Kind, *, apart: bool
    ) -> list[list[FinishedTrial]]: ...

    @abstractmethod
    def renew(self) -> None:
        """What comes next shares no boot with what came before."""

    def now(self) -> float:
        """Seconds by a clock that also went on while an earlier run measured what was recalled."""
        return self.clock() + self._recalled_s

    # --- what an interrupted run left

    def _recall(self, asks: Sequence[Ask], kind: Kind) -> list[FinishedTrial] | None:
        """A whole block's answers from the journal. What asks is the same, so it asks the same.

        Blocks that were begun and not ended are passed over: their trials were not close together.
        """
        while self._kept:
            number = min(self._kept)
            known = _matched(
                [PlannedTrial(0, 0, 0, self.platform, self._cell(ask), kind) for ask in asks],
                self._kept.pop(number),
            )
            if known is not None:
                self._next_block = number + 1
                self.trials += len(known)
                self._recalled_s += sum(trial.elapsed_s for trial in known)
                return known
            self._passed_over(number)
        return None

    def _passed_over(self, number: int) -> None:
        self._next_block = number + 1

    # --- numbers and the journal

    def _new_block(self) -> int:
        self._next_block += 1
        return self._next_block - 1

    def _planned(self, ask: Ask, block: int, boot: int, kind: Kind) -> PlannedTrial:
        planned = PlannedTrial(self._next_id, block, boot, self.platform, self._cell(ask), kind)
        self._next_id += 1
        return planned

    def _cell(self, ask: Ask) -> Cell:
        return {"workload": self.workload, **ask.cell}

    def _note(
        self,
        planned: PlannedTrial,
        levels: Mapping[str, Level | None],
        nodes: Sequence[str],
        records: Sequence[Record],
        error: str | None,
        seconds: float,
        fingerprint: str | None = None,
    ) -> FinishedTrial:
        """Writes a finished trial of these levels down."""
        most = line.theoretical(self.file.cell(dict(levels)), self.workload)
        finished = outcome(self._kind, planned, nodes, records, error, seconds, fingerprint, most)
        self.trials += 1
        self.journal.append(finished, records)
        self.observer.end(finished, self.left_s())
        return finished

    def _shuffled(self, count: int, block: int) -> list[int]:
        order = list(range(count))
        random.Random(f"{self.seed}/asked/{block}").shuffle(order)
        return order

    def _pass_on_logs(self, records: Sequence[Record]) -> None:
        for text in warnings(records):
            self.journal.add_event(text)
            self.observer.warn(text)


class BenchLaboratory(Laboratory):
    """Asks one trial after the other of a machine on which a bench stands.

    A block begins with the settings that fit the bench that stands, so that two settings that need
    two benches run as ABBA: half as many boots, and a steady drift cancels.
    """

    def __init__(
        self,
        file: StudyFile,
        workload: str,
        platform: str,
        machine: Machine,
        journal: Journal,
        observer: Observer,
        surroundings: planner.Surroundings,
        seed: int,
        clock: Callable[[], float] = time.monotonic,
        first: int | None = None,
    ) -> None:
        super().__init__(
            file, workload, platform, journal, observer, surroundings, seed, clock, first
        )
        self.machine = machine
        self._plot: Plot | None = None
        self._blocks_on_bench = 0

    def _measure_blocks(
        self, many: Sequence[Sequence[Ask]], kind: Kind, *, apart: bool
    ) -> list[list[FinishedTrial]]:
        return [self._measure(asks, kind, apart) for asks in many]

    def renew(self) -> None:
        self._down()

    def _measure(self, asks: Sequence[Ask], kind: Kind, apart: bool) -> list[FinishedTrial]:
        """One trial of each, in random order but for the bench that is up."""
        block = self._new_block()
        several = len(self._grouped(asks, block)) > 1
        if self._blocks_on_bench >= self.study.design.blocks_per_boot or (apart and several):
            self._down()
        answers: dict[int, FinishedTrial] = {}
        for hard, places in self._grouped(asks, block):
            wanted = _distinct(_guest_only(asks[place].levels) for place in places)
            for place in places:
                error = self._stand(hard, wanted)
                answers[place] = self._trial(asks[place], block, kind, error)
        self._blocks_on_bench += 1
        return [answers[place] for place in range(len(asks))]

    def _grouped(self, asks: Sequence[Ask], block: int) -> list[tuple[Cell, list[int]]]:
        """Places of the asks by the bench that they need, in random order but for the bench that is up."""
        groups: list[tuple[Cell, list[Cell], list[int]]] = []
        for place in self._shuffled(len(asks), block):
            hard, own = _hard(asks[place].levels), _guest_only(asks[place].levels)
            for known, owns, places in groups:
                if _same(known, hard) and (_among(own, owns) or len(owns) < MAX_GUESTS):
                    if not _among(own, owns):
                        owns.append(own)
                    places.append(place)
                    break
            else:
                groups.append((hard, [own], [place]))
        groups.sort(key=lambda group: not self._stands(group[0], group[1]))
        return [(hard, places) for hard, _, places in groups]

    # --- the bench

    def _stands(self, hard: Cell, wanted: Sequence[Cell]) -> bool:
        if self._plot is None or not _same(self._plot.levels, hard):
            return False
        there = [variant.levels for variant in self._variants()]
        return all(_among(own, there) for own in wanted)

    def _variants(self) -> list[Variant]:
        assert self._plot is not None
        return [v for v in self._plot.variants if v.platform == self.platform]

    def _stand(self, hard: Cell, wanted: Sequence[Cell]) -> str | None:
        """Makes the bench that these settings need, unless it is up, and warms it up.

        Returns:
            Why it could not be had.
        """
        if self._stands(hard, wanted):
            return None
        self._down()
        others = [Variant(self.platform, own) for own in wanted if self.platform != BASELINE]
        study = self.file.cell(hard)
        variants = tuple(name_nodes([Variant(BASELINE), *others], study.bench_guests))
        plot = Plot(hard, variants)
        self._boot += 1
        self.observer.bench(self._boot, plot)
        cells = {variant.node: self.file.cell({**hard, **variant.levels}) for variant in variants}
        bench = planner.make_bench(study, plot, cells, self.surroundings)
        records = self.machine.make_bench(bench, planner.boot_limit_s(study))
        self.journal.add_bench(self._boot, records)
        self._pass_on_logs(records)
        ready = records[-1]
        assert isinstance(ready, BenchReady)
        if ready.error is not None:
            return ready.error
        self._plot = plot
        return self._warm_up(hard)

    def _warm_up(self, hard: Cell) -> str | None:
        for variant in self._variants():
            for _ in range(self._warmup):
                levels = {**hard, **variant.levels}
                warm = self._trial(Ask(levels, levels), self._next_block, "warmup", None)
                if self._plot is None:
                    return warm.error
        self._new_block()
        return None

    def _down(self) -> None:
        if self._plot is not None:
            self._pass_on_logs(self.machine.teardown())
        self._plot = None
        self._blocks_on_bench = 0

    # --- a trial

    def _trial(self, ask: Ask, block: int, kind: Kind, error: str | None) -> FinishedTrial:
        """One trial; with `error`, one that could not even begin."""
        planned = self._planned(ask, block, self._boot, kind)
        self.observer.begin(planned)
        began = self.clock()
        nodes: tuple[str, ...] = ()
        records: Sequence[Record] = ()
        if error is None:
            own = _guest_only(ask.levels)
            variant = next(v for v in self._variants() if _same(v.levels, own))
            nodes = variant.nodes
            records, error = self._run(ask, variant, planned)
        return self._note(planned, ask.levels, nodes, records, error, self.clock() - began)

    def _run(
        self, ask: Ask, variant: Variant, planned: PlannedTrial
    ) -> tuple[Sequence[Record], str | None]:
        assert self._plot is not None
        trial = planner.make_trial(
            planned.id,
            self.file.cell(ask.levels),
            self.workload,
            variant,
            self._plot,
            self.surroundings,
        )
        records = self.machine.run(trial)
        self._pass_on_logs(records)
        end = records[-1]
        assert isinstance(end, TrialEnd)
        if end.lost is not None:
            # The other guests of the bench go with it; the next trial makes it anew.
            self._down()
        return records, end.error


def _blocks(trials: Iterable[FinishedTrial]) -> dict[int, list[FinishedTrial]]:
    found: dict[int, list[FinishedTrial]] = {}
    for trial in trials:
        found.setdefault(trial.planned.block, []).append(trial)
    return found


def _matched(
    asked: Sequence[PlannedTrial], trials: Sequence[FinishedTrial]
) -> list[FinishedTrial] | None:
    """A trial of its own for each that is asked; none if one has none."""
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


def _is_guest_only(path: str) -> bool:
    table, _, name = path.partition(".")
    return table == "sut" and name in GUEST_ONLY


def _guest_only(levels: Mapping[str, Level | None]) -> Cell:
    return {path: v for path, v in levels.items() if v is not None and _is_guest_only(path)}


def _hard(levels: Mapping[str, Level | None]) -> Cell:
    return {
        path: level
        for path, level in levels.items()
        if level is not None and is_hard(path) and not _is_guest_only(path)
    }


def _same(one: Cell, other: Cell) -> bool:
    return sorted((p, repr(v)) for p, v in one.items()) == sorted(
        (p, repr(v)) for p, v in other.items()
    )


def _among(one: Cell, others: Iterable[Cell]) -> bool:
    return any(_same(one, other) for other in others)


def _distinct(cells: Iterable[Cell]) -> list[Cell]:
    found: list[Cell] = []
    for cell in cells:
        if not _among(cell, found):
            found.append(cell)
    return found
