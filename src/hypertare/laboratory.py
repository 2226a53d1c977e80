"""Trials for whoever asks: a block of settings at a time, each measured once, close together.

A campaign knows its design before it starts. A tuner or a search does not: it looks at what came back
and asks for more. The order of work is `block` -> `_stand` (the bench that the settings need) ->
`_trial`. Everything measured goes to the journal at once.

A block begins with the settings that fit the bench that stands, so that two settings that need two
benches run as ABBA: half as many boots, and a steady drift cancels.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from hypertare import planner
from hypertare.campaign import Journal, Machine, Observer
from hypertare.design import HARD_TABLES, MAX_GUESTS, Plot, Variant
from hypertare.outcome import outcome, warnings
from hypertare.records import BenchReady, Record, TrialEnd
from hypertare.study import BASELINE, GUEST_ONLY, StudyFile
from hypertare.trials import Cell, FinishedTrial, PlannedTrial


@dataclass(frozen=True)
class Ask:
    """A setting to be measured: `levels` is put into the study, `cell` names it in the journal."""

    levels: Cell
    cell: Cell


class Laboratory:
    """Runs asked blocks of one workload on one platform. Use as a context manager."""

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
    ) -> None:
        self.file = file
        self.workload = workload
        self.platform = platform
        self.machine = machine
        self.journal = journal
        self.observer = observer
        self.surroundings = surroundings
        self.seed = seed
        self.clock = clock
        self.trials = 0
        self.left_s: Callable[[], float] = lambda: 0.0
        study = file.study()
        self._kind = study.workloads[workload].type
        self._blocks_per_boot = study.design.blocks_per_boot
        # Only commands find cold caches after a boot; streams leave their own beginnings out.
        self._warmup = study.design.warmup if self._kind == "command" else 0
        self._plot: Plot | None = None
        self._blocks_on_bench = 0
        self._next_id = self._next_block = 0
        self._boot = -1

    def __enter__(self) -> Laboratory:
        return self

    def __exit__(self, *_: object) -> None:
        self._down()

    def block(
        self, asks: Sequence[Ask], kind: Literal["warmup", "measured"] = "measured"
    ) -> list[FinishedTrial]:
        """One trial of each, in random order; answers stand in the order of the asks."""
        block = self._next_block
        self._next_block += 1
        if self._blocks_on_bench >= self._blocks_per_boot:
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

    def _shuffled(self, count: int, block: int) -> list[int]:
        order = list(range(count))
        random.Random(f"{self.seed}/asked/{block}").shuffle(order)
        return order

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
        variants = [Variant(BASELINE, {}, planner.HOST, 0)]
        if self.platform != BASELINE:
            variants += [
                Variant(self.platform, own, f"{self.platform}{index}", index)
                for index, own in enumerate(wanted, start=1)
            ]
        plot = Plot(hard, tuple(variants))
        self._boot += 1
        self.observer.bench(self._boot, plot)
        cells = {variant.node: self.file.cell({**hard, **variant.levels}) for variant in variants}
        study = self.file.cell(hard)
        bench = planner.make_bench(study, plot, cells, self.surroundings)
        records = self.machine.make_bench(bench, study.sut.boot_limit)
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
        self._next_block += 1
        return None

    def _down(self) -> None:
        if self._plot is not None:
            self._pass_on_logs(self.machine.teardown())
        self._plot = None
        self._blocks_on_bench = 0

    # --- a trial

    def _trial(
        self, ask: Ask, block: int, kind: Literal["warmup", "measured"], error: str | None
    ) -> FinishedTrial:
        """One trial; with `error`, one that could not even begin."""
        cell = {"workload": self.workload, **ask.cell}
        planned = PlannedTrial(self._next_id, block, self._boot, self.platform, cell, kind)
        self._next_id += 1
        self.observer.begin(planned)
        began = self.clock()
        node, records = "", ()
        if error is None:
            own = _guest_only(ask.levels)
            variant = next(v for v in self._variants() if _same(v.levels, own))
            node = variant.node
            records, error = self._run(ask, variant, planned)
        finished = outcome(self._kind, planned, node, records, error, self.clock() - began)
        self.trials += 1
        self.journal.append(finished, records)
        self.observer.end(finished, self.left_s())
        return finished

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

    def _pass_on_logs(self, records: Sequence[Record]) -> None:
        for text in warnings(records):
            self.journal.add_event(text)
            self.observer.warn(text)


def _is_guest_only(path: str) -> bool:
    table, _, name = path.partition(".")
    return table == "sut" and name in GUEST_ONLY


def _guest_only(levels: Cell) -> Cell:
    return {path: level for path, level in levels.items() if _is_guest_only(path)}


def _hard(levels: Cell) -> Cell:
    return {
        path: level
        for path, level in levels.items()
        if path.partition(".")[0] in HARD_TABLES and not _is_guest_only(path)
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
