"""A run from its design to its last trial: makes benches, asks for trials, decides when to stop.

The order of work is `run` -> `_visit` (one boot of a plot) -> `_round` -> `_block` -> `_trial`.
Everything measured goes to the journal at once; what is watched goes to the observer.
"""

from __future__ import annotations

import itertools
import math
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from hypertare.base.level import key as series_key
from hypertare.design import line, planner
from hypertare.design.design import Design, EasyCell, Plot, Variant
from hypertare.design.trials import FinishedTrial, PlannedTrial
from hypertare.findings.outcome import outcome, warnings
from hypertare.findings.stopping import Watched
from hypertare.protocol import plan
from hypertare.protocol.records import BenchReady, Record, TrialEnd
from hypertare.study import BASELINE, Study, StudyFile
from hypertare.workloads import responses

MAX_FAILURES = 3
"""Failures in a row after which a variant is given up in a cell; the others go on."""

_BOOT_ESTIMATE_S = 6.0
_BENCH_ESTIMATE_S = 0.2
"""Of a bench on which nothing boots."""

_TRIAL_OVERHEAD_S = 0.3
_UNKNOWN_COMMAND_S = 2.0


class Machine(Protocol):
    """What a campaign needs of a machine."""

    def make_bench(self, bench: plan.Bench, limit_s: float) -> list[Record]: ...
    def run(self, trial: plan.Trial) -> list[Record]: ...
    def teardown(self) -> list[Record]: ...


class Journal(Protocol):
    """Where a campaign writes what happened, after every trial."""

    def append(self, finished: FinishedTrial, records: Sequence[Record]) -> None: ...
    def add_bench(self, boot: int, records: Sequence[Record]) -> None: ...
    def add_event(self, text: str) -> None: ...
    def trials(self) -> list[FinishedTrial]: ...


class Observer(Protocol):
    """Who watches a campaign."""

    def tell(self, text: str) -> None: ...
    def bench(self, boot: int, plot: Plot) -> None: ...
    def begin(self, planned: PlannedTrial) -> None: ...
    def end(self, finished: FinishedTrial, remaining_s: float) -> None: ...
    def warn(self, text: str) -> None: ...


@dataclass(frozen=True)
class Key:
    """A cell of the design: a plot and an easy cell, by index."""

    plot: int
    cell: int


class Campaign:
    """Carries a design out on a machine until every cell is precise, at its limit, or time is up."""

    def __init__(
        self,
        file: StudyFile,
        study: Study,
        design: Design,
        machine: Machine,
        journal: Journal,
        observer: Observer,
        surroundings: planner.Surroundings,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.file = file
        self.study = study
        self.design = design
        self.machine = machine
        self.journal = journal
        self.observer = observer
        self.surroundings = surroundings
        self.clock = clock
        self._done: set[Key] = set()
        self._failures: Counter[tuple[Key, str]] = Counter()
        self._abandoned: set[tuple[Key, str]] = set()
        self._seconds: dict[tuple[str, str], _Mean] = defaultdict(_Mean)
        self._watched = {
            Key(plot, cell): self._watch(design.plots[plot])
            for plot in range(len(design.plots))
            for cell in range(len(design.cells))
        }
        self._next_id = 0
        self._next_block = 0
        self._next_boot = 0
        self._by_cell: dict[object, list[tuple[Key, Variant]]] = {}
        self._resume([one for one in journal.trials() if one.planned.of_cell])

    def run(self) -> bool:
        """Works until nothing is left to do.

        Returns:
            Whether every cell came to its end, precise or at its limit of trials; `False` when the
            time limit ended the run.
        """
        self._started = self.clock()
        boot_round = 0
        while self._open_keys():
            for plot in self.design.plot_order(boot_round):
                open_here = [key for key in self._open_keys() if key.plot == plot]
                if not open_here:
                    continue
                if self._out_of_time(self._visit_s(open_here)):
                    return False
                self._visit(plot)
            boot_round += 1
        return True

    # --- one boot

    def _visit(self, index: int) -> None:
        """Makes the bench of a plot, warms up, takes some blocks, removes the bench."""
        plot = self.design.plots[index]
        boot = self._next_boot
        self._next_boot += 1
        self.observer.bench(boot, plot)
        if not self._make_bench(index, plot, boot):
            return
        try:
            if self._warm_up(index, plot, boot):
                for repetition in self._repetitions(plot):
                    if not self._round(index, plot, boot, repetition):
                        break
        finally:
            self._pass_on_logs(self.machine.teardown())

    def _repetitions(self, plot: Plot) -> Iterable[int]:
        """Blocks of a visit. Where nothing boots, another bench is no other sample: one lasts to the end
        of the run, unless other plots need theirs in between.
        """
        if plot.boots or len(self.design.plots) > 1:
            return range(self.study.design.blocks_per_boot)
        return itertools.count()

    def _watch(self, plot: Plot) -> Watched:
        settings = self.study.design
        baseline = next((v.node for v in plot.variants if v.platform == BASELINE), "")
        subjects = [variant.node for variant in plot.variants if _is_subject(variant, plot)]
        min_boots = settings.min_boots if self._boots_at_all(plot) else 1
        return Watched(self.study, baseline, subjects, min_boots)

    def _boots_at_all(self, plot: Plot) -> bool:
        return plot.boots or self.study.machine == "emulated"

    def _make_bench(self, index: int, plot: Plot, boot: int) -> bool:
        live = self._live_plot(index, plot)
        if not any(_is_subject(variant, plot) for variant in live.variants):
            self._done |= {key for key in self._open_keys() if key.plot == index}
            return False
        levels = plot.levels
        cells = {
            variant.node: self.file.cell({**levels, **variant.levels}) for variant in live.variants
        }
        study = self.file.cell(levels)
        bench = planner.make_bench(study, live, cells, self.surroundings)
        records = self.machine.make_bench(bench, planner.boot_limit_s(study))
        self.journal.add_bench(boot, records)
        self._pass_on_logs(records)
        ready = records[-1]
        assert isinstance(ready, BenchReady)
        if ready.error is None:
            return True
        self._bench_failed(index, live, boot, ready, records)
        return False

    def _bench_failed(
        self, index: int, plot: Plot, boot: int, ready: BenchReady, records: Sequence[Record]
    ) -> None:
        """Counts the failure against the node that is to blame, in every open cell of the plot."""
        blamed = [variant for variant in plot.variants if ready.node in variant.nodes]
        for variant in blamed or plot.variants:
            for key in [key for key in self._open_keys() if key.plot == index]:
                planned = self.design.trial(
                    plot, variant, self.design.cells[key.cell], self._next_block, boot
                )
                self._note(key, variant, self._numbered(planned), records, str(ready.error), 0.0)
        self._next_block += 1

    def _live_plot(self, index: int, plot: Plot) -> Plot:
        """The plot without the variants that were given up in every cell that is still open."""
        open_keys = [key for key in self._open_keys() if key.plot == index]
        live = [
            variant
            for variant in plot.variants
            if any((key, variant.node) not in self._abandoned for key in open_keys)
        ]
        return Plot(plot.levels, tuple(live))

    # --- blocks

    def _warm_up(self, index: int, plot: Plot, boot: int) -> bool:
        """Runs each command a few times uncounted on every variant; `False` when the boot must end.

        A command finds its programs in no cache after a boot; streams and pings leave their own
        beginnings out (`omit`).
        """
        for cell, easy in enumerate(self.design.cells):
            key = Key(index, cell)
            if not self._warms_up(key):
                continue
            for _ in range(self.study.design.warmup):
                if key not in self._done and not self._block(key, plot, easy, boot, warmup=True):
                    return False
        return True

    def _round(self, index: int, plot: Plot, boot: int, repetition: int) -> bool:
        """One block of every open cell of the plot; `False` when the boot must end."""
        for cell in self.design.cell_order(boot, repetition):
            key = Key(index, cell)
            if key in self._done:
                continue
            if self._out_of_time(self._block_s(key)):
                return False
            if not self._block(key, plot, self.design.cells[cell], boot, warmup=False):
                return False
            self._decide(key, plot)
        return any(key.plot == index for key in self._open_keys())

    def _block(self, key: Key, plot: Plot, easy: EasyCell, boot: int, *, warmup: bool) -> bool:
        """One trial of every variant, in random order; `False` when a node was lost."""
        block = self._next_block
        self._next_block += 1
        by_levels = {self._identity(variant): variant for variant in plot.variants}
        for planned in self.design.block(plot, easy, block, boot):
            variant = by_levels[self._identity_of(planned, plot)]
            if (key, variant.node) in self._abandoned:
                continue
            if warmup:
                planned = replace(planned, kind="warmup")
            if not self._trial(key, plot, variant, self._numbered(planned)):
                return False
        return True

    def _trial(self, key: Key, plot: Plot, variant: Variant, planned: PlannedTrial) -> bool:
        """One trial; `False` when its node was lost and the bench must be made anew."""
        study = self.file.cell({k: v for k, v in planned.cell.items() if k != "workload"})
        live = self._live_plot(key.plot, plot)
        trial = planner.make_trial(
            planned.id,
            study,
            planned.workload,
            variant,
            live,
            self.surroundings,
            warmup=planned.kind == "warmup",
        )
        self.observer.begin(planned)
        began = self.clock()
        records = self.machine.run(trial)
        seconds = self.clock() - began
        self._pass_on_logs(records)
        end = records[-1]
        assert isinstance(end, TrialEnd)
        self._note(key, variant, planned, records, end.error, seconds)
        return end.lost is None

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
        """Writes a finished trial down, and gives its variant up after too many failures in a row."""
        kind = self.study.workloads[planned.workload].type
        most = self._carried_at_most(planned)
        finished = outcome(kind, planned, variant.nodes, records, error, seconds, fingerprint, most)
        error = finished.error
        self._enter(key, variant, finished)
        self.journal.append(finished, records)
        self._count_failure(key, variant, planned, error)
        if error is None:
            self._seconds[planned.workload, variant.node].add(seconds)
        self.observer.end(finished, self.remaining_s())

    def _carried_at_most(self, planned: PlannedTrial) -> float | None:
        if not self.study.has_line:
            return None
        levels = {factor: level for factor, level in planned.cell.items() if factor != "workload"}
        return line.theoretical(self.file.cell(levels), planned.workload)

    def _count_failure(
        self, key: Key, variant: Variant, planned: PlannedTrial, error: str | None
    ) -> None:
        if error is None:
            self._failures[key, variant.node] = 0
            return
        self._failures[key, variant.node] += 1
        where = f"{planned.workload} on {variant.platform}"
        if planned.platform == BASELINE and planned.kind == "warmup":
            # What fails natively fails everywhere, or means nothing where it does not.
            self._done.add(key)
            self._warn(f"{where} fails natively, so {planned.workload} was left out")
        elif self._failures[key, variant.node] >= MAX_FAILURES:
            self._abandoned.add((key, variant.node))
            self._warn(f"{where} was given up after {MAX_FAILURES} failures in a row")
            if variant.platform == BASELINE:
                self._done.add(key)

    # --- when to stop

    def _decide(self, key: Key, plot: Plot) -> None:
        """Closes a cell when each of its live variants is precise enough or at its limit."""
        from hypertare.stats.stop import Decision

        watched = self._watched[key]
        live = [
            variant.node
            for variant in plot.variants
            if _is_subject(variant, plot) and (key, variant.node) not in self._abandoned
        ]
        if watched.attempts >= self.study.design.max_trials + MAX_FAILURES or all(
            watched.decide(node) is not Decision.CONTINUE for node in live
        ):
            self._done.add(key)

    def _enter(self, key: Key, variant: Variant, finished: FinishedTrial) -> None:
        """Lets a trial count for the decision about its cell."""
        planned = finished.planned
        if planned.kind != "measured":
            return
        watched = self._watched[key]
        watched.begin(planned.block)
        if finished.counts:
            headline = responses.HEADLINE[self.study.workloads[planned.workload].type]
            value = finished.values.get(headline)
            watched.add(variant.node, planned.block, planned.boot, value)

    def _open_keys(self) -> list[Key]:
        return [
            key
            for plot in range(len(self.design.plots))
            for cell in range(len(self.design.cells))
            if (key := Key(plot, cell)) not in self._done
        ]

    def _out_of_time(self, ahead_s: float) -> bool:
        """Whether what would come next ends beyond the limit. What comes first is always done."""
        elapsed = self.clock() - self._started
        limit = self.study.design.time_limit
        return elapsed >= limit or (bool(self._seconds) and elapsed + ahead_s > limit)

    def _visit_s(self, open_here: Sequence[Key]) -> float:
        """Seconds of the least that makes a boot worth while: warm-ups and one block."""
        warm = sum(self._block_s(key) for key in open_here if self._warms_up(key))
        make = bench_s(self.design.plots[open_here[0].plot])
        return make + self.study.design.warmup * warm + self._block_s(open_here[0])

    def _block_s(self, key: Key) -> float:
        easy = self.design.cells[key.cell]
        return sum(
            self._expected(easy.workload, variant.node)
            for variant in self.design.plots[key.plot].variants
            if (key, variant.node) not in self._abandoned
        )

    def _warms_up(self, key: Key) -> bool:
        return self.study.workloads[self.design.cells[key.cell].workload].kind.warms_up

    def remaining_s(self) -> float:
        """Most time that the rest may take: every open cell to its limit, but not beyond the time limit."""
        seconds = 0.0
        for key in self._open_keys():
            left = max(0, self.study.design.max_trials - self._watched[key].attempts)
            boots = visits(self.study, self.design, self.design.plots[key.plot], left)
            warm = self.study.design.warmup if self._warms_up(key) else 0
            seconds += (left + boots * warm) * self._block_s(key)
            seconds += boots * bench_s(self.design.plots[key.plot]) / len(self.design.cells)
        left_of_limit = self.study.design.time_limit - (self.clock() - self._started)
        return max(0.0, min(seconds, left_of_limit))

    def _expected(self, workload: str, node: str) -> float:
        seen = self._seconds.get((workload, node))
        return expected_trial_s(self.study, workload) if seen is None else seen.mean

    # --- small things

    def _resume(self, trials: Sequence[FinishedTrial]) -> None:
        """Takes up what an interrupted run left: its trials count, its numbers go on."""
        self._started = self.clock()
        if not trials:
            return
        self._next_id = max(trial.planned.id for trial in trials) + 1
        self._next_block = max(trial.planned.block for trial in trials) + 1
        self._next_boot = max(trial.planned.boot for trial in trials) + 1
        of_block = {
            trial.planned.block: places[0][0]
            for trial in trials
            if len(places := self._places_of(trial.planned)) == 1
        }
        for trial in trials:
            places = self._places_of(trial.planned)
            wanted = of_block.get(trial.planned.block, places[0][0] if places else None)
            for key, variant in places:
                if key == wanted:
                    self._enter(key, variant, trial)
        for key in self._open_keys():
            if self._watched[key].attempts:
                self._decide(key, self.design.plots[key.plot])

    def _places_of(self, planned: PlannedTrial) -> list[tuple[Key, Variant]]:
        """Where a stored trial may stand in the design; one of the baseline in several plots, where they
        differ in their guests only.
        """
        if not self._by_cell:
            for key in self._watched:
                plot, easy = self.design.plots[key.plot], self.design.cells[key.cell]
                for variant in plot.variants:
                    cell = self.design.trial(plot, variant, easy, 0, 0).cell
                    place = variant.platform, series_key(cell)
                    self._by_cell.setdefault(place, []).append((key, variant))
        return self._by_cell.get((planned.platform, series_key(planned.cell)), [])

    def _numbered(self, planned: PlannedTrial) -> PlannedTrial:
        numbered = replace(planned, id=self._next_id)
        self._next_id += 1
        return numbered

    def _identity(self, variant: Variant) -> tuple[str, Any]:
        return variant.platform, _frozen(variant.levels)

    def _identity_of(self, planned: PlannedTrial, plot: Plot) -> tuple[str, Any]:
        return planned.platform, _frozen(self._variant_levels(planned, plot))

    def _variant_levels(self, planned: PlannedTrial, plot: Plot) -> dict[str, Any]:
        names = {name for variant in plot.variants for name in variant.levels}
        return {name: level for name, level in planned.cell.items() if name in names}

    def _pass_on_logs(self, records: Sequence[Record]) -> None:
        for text in warnings(records):
            self._warn(text)

    def _warn(self, text: str) -> None:
        self.journal.add_event(text)
        self.observer.warn(text)


class _Mean:
    """Of numbers as they come."""

    def __init__(self) -> None:
        self._sum = 0.0
        self._count = 0

    def add(self, value: float) -> None:
        self._sum += value
        self._count += 1

    @property
    def mean(self) -> float:
        return self._sum / self._count


def _is_subject(variant: Variant, plot: Plot) -> bool:
    """Whether it is measured for its own sake, as a baseline is where it is alone."""
    alone = all(other.platform == BASELINE for other in plot.variants)
    return variant.platform != BASELINE or alone


def _frozen(levels: dict[str, Any]) -> tuple[tuple[str, str], ...]:
    return tuple(sorted((name, repr(level)) for name, level in levels.items()))


def expected_trial_s(study: Study, workload: str) -> float:
    """Seconds that one trial is expected to take before any was seen."""
    expected = planner.expected_seconds(study.workloads[workload])
    return (_UNKNOWN_COMMAND_S if expected is None else expected) + _TRIAL_OVERHEAD_S


def visits(study: Study, design: Design, plot: Plot, blocks: float) -> float:
    """Benches that so many blocks of a plot take: a part of one where blocks are left of another."""
    if not plot.boots and len(design.plots) == 1:
        return min(1.0, blocks)
    return blocks / study.design.blocks_per_boot


def bench_s(plot: Plot) -> float:
    """Seconds that making a plot's bench is expected to take."""
    return _BOOT_ESTIMATE_S if plot.boots else _BENCH_ESTIMATE_S


def expected_run_s(study: Study, design: Design, blocks: int) -> float:
    """Seconds of a run that takes this many blocks of every cell, before any was seen."""
    seconds = 0.0
    for plot in design.plots:
        boots = math.ceil(visits(study, design, plot, blocks))
        seconds += boots * bench_s(plot)
        for cell in design.cells:
            warms_up = study.workloads[cell.workload].kind.warms_up
            times = blocks + (boots * study.design.warmup if warms_up else 0)
            seconds += times * len(plot.variants) * expected_trial_s(study, cell.workload)
    return seconds
