"""Tracks the cells of a design during a run: open cells, and variants that were given up.

The tracker measures nothing; each trial enters it when it ends. A variant that is known precisely enough
rests. A cell closes when each of its remaining variants rests or is at its limit of trials.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from hypertare.base.variables import key as series_key
from hypertare.design import planner
from hypertare.design.design import Variant, WholePlot
from hypertare.design.trials import FinishedTrial, Kind, PlannedTrial
from hypertare.findings.progress import Watched
from hypertare.machines.batch import TrialSlot
from hypertare.study.factors import expected_trial_s

if TYPE_CHECKING:
    from hypertare.engine.session import Session

MAX_FAILURES = 3
"""Failures in a row after which a variant is given up in a cell; the others go on."""


@dataclass(frozen=True)
class Key:
    """A cell of the design: a plot and an easy cell, by index."""

    plot: int
    cell: int


class CellTracker:
    """The state of each cell of a run. Each variant that is left out is warned of."""

    def __init__(self, session: Session) -> None:
        self.study = session.prepared.study
        self.design = session.prepared.design
        self.recorder = session.recorder
        self._hosts = len(session.on.hosts)
        self._counts_in_warmups = planner.counts_in_warmups(self.study, session.on)
        self._done: set[Key] = set()
        self._failures: Counter[tuple[Key, str]] = Counter()
        self._abandoned: set[tuple[Key, str]] = set()
        self._resting: set[tuple[Key, str]] = set()
        self._seconds: dict[tuple[str, str], tuple[float, int]] = {}
        """By workload and node: seconds of all trials, and how many these are."""
        self._watched = {
            Key(number, cell): self._watch(plot)
            for number, plot in enumerate(self.design.plots)
            for cell in range(len(self.design.cells))
        }
        self._by_cell: dict[object, list[tuple[Key, Variant]]] = {}

    def _watch(self, plot: WholePlot) -> Watched:
        baseline = next((v.node for v in plot.variants if v.kind.is_baseline), "")
        subjects = [variant.node for variant in plot.variants if _is_subject(variant, plot)]
        boots_at_all = plot.boots or self.study.machine_kind.boots_whole_pcs
        # Where nothing boots, another boot is another sample only on another host.
        least = self.study.design.min_boots if boots_at_all else 1
        min_boots = max(least, self._hosts)
        return Watched(self.study, baseline, subjects, min_boots)

    # --- what is open

    def open(self, plot: int | None = None) -> list[Key]:
        """The open cells, of one plot or of all."""
        return [key for key in self._watched if key not in self._done and plot in (None, key.plot)]

    def is_open(self, key: Key) -> bool:
        return key not in self._done

    def warms_up(self, key: Key) -> bool:
        """Whether a boot begins with warm-ups of this cell.

        A command's caches are cold after a boot. Streams and pings omit their own beginning (`omit`); they
        need a warm-up only if it counts something that no other trial counts.
        """
        return (
            self._counts_in_warmups
            or self.study.workloads[self.design.cells[key.cell].workload].kind.warms_up
        )

    def attempts(self, key: Key) -> int:
        """Blocks of a cell that were begun, warm-ups left out."""
        return self._watched[key].attempts

    def live_plot(self, index: int) -> WholePlot:
        """The plot without the variants that no open cell needs any more: nobody boots a guest to wait."""
        plot, open_keys = self.design.plots[index], self.open(index)
        live = [
            variant
            for variant in plot.variants
            if any(self._takes_part(key, variant) for key in open_keys)
        ]
        return WholePlot(plot.levels, tuple(live))

    def has_subjects(self, index: int, live: WholePlot) -> bool:
        """Whether there is anything left to measure on a plot's bench."""
        return any(_is_subject(variant, self.design.plots[index]) for variant in live.variants)

    def _takes_part(self, key: Key, variant: Variant) -> bool:
        """Whether a variant still has trials in a cell: it was not given up and does not rest."""
        one = key, variant.node
        return one not in self._abandoned and one not in self._resting

    def places(
        self, key: Key, block: int, boot: int, kind: Kind, *order: int
    ) -> Iterator[TrialSlot]:
        """One trial of every variant that takes part, in random order; not yet numbered."""
        plot, easy = self.design.plots[key.plot], self.design.cells[key.cell]
        variants = {(one.platform, series_key(one.levels)): one for one in plot.variants}
        names = {name for variant in plot.variants for name in variant.levels}
        for planned in self.design.block(plot, easy, block, boot, *order):
            own = {name: level for name, level in planned.cell.items() if name in names}
            variant = variants[planned.platform, series_key(own)]
            if self._takes_part(key, variant):
                yield place_of(key, variant, replace(planned, kind=kind))

    def cut(self, plot: int, replicate: int) -> list[list[Key]]:
        """Divides the open cells of a plot among boots, so that no boot exceeds `design.trials_per_boot`
        trials.

        Each round divides them at random anew. A cell with more trials has a boot of its own.
        """
        keys, most = self.open(plot), self.study.design.trials_per_boot
        if most is None:
            return [keys]
        parts: list[list[Key]] = []
        room = 0
        drawn = (Key(plot, cell) for cell in self.design.cell_order(replicate, 0))
        for key in (key for key in drawn if key in keys):
            trials = self.study.design.blocks_per_boot * self._on_one_machine(key)
            if not parts or room < trials:
                parts.append([])
                room = most
            parts[-1].append(key)
            room -= trials
        return [[key for key in keys if key in part] for part in parts]

    def _on_one_machine(self, key: Key) -> int:
        """Trials of a block on one machine: platforms may need machines of their own."""
        taking = [v for v in self.design.plots[key.plot].variants if self._takes_part(key, v)]
        if not self.study.machine_kind.boots_whole_pcs:
            return len(taking)
        return max(Counter(variant.kind.pc for variant in taking).values(), default=0)

    # --- what was measured

    def enter(self, place: TrialSlot, finished: FinishedTrial) -> None:
        """Takes a trial that has ended. It counts for the decision about its cell, and for how long such
        trials take on its node; too many failures in a row give its variant up.
        """
        key, variant, planned = place.key, place.variant, finished.planned
        self._count(key, variant, finished)
        if finished.error is None:
            self._failures[key, variant.node] = 0
            at = planned.workload, variant.node
            seconds, trials = self._seconds.get(at, (0.0, 0))
            self._seconds[at] = seconds + finished.elapsed_s, trials + 1
            return
        self._failures[key, variant.node] += 1
        where = f"{planned.workload} on {variant.platform}"
        if variant.kind.is_baseline and planned.kind == "warmup":
            # What fails natively fails everywhere, or means nothing where it does not. Reports name it by
            # the failure itself.
            self._done.add(key)
        elif self._failures[key, variant.node] >= MAX_FAILURES:
            self._abandoned.add((key, variant.node))
            self.recorder.warn(f"{where} was given up after {MAX_FAILURES} failures in a row")
            if variant.kind.is_baseline:
                self._done.add(key)

    def _count(self, key: Key, variant: Variant, finished: FinishedTrial) -> None:
        """Lets a trial count for the decision about its cell."""
        planned = finished.planned
        if planned.kind != "measured":
            return
        watched = self._watched[key]
        watched.begin(planned.block)
        if finished.counts:
            value = finished.values.get(self.study.workloads[planned.workload].headline)
            watched.add(variant.node, planned.block, planned.boot, value)

    def decide(self, key: Key) -> None:
        """Lets variants that are precise enough rest, and closes the cell when each rests, is at its limit
        or was given up. The baseline goes on as long as anybody is compared with it.
        """
        from hypertare.stats.stop import Decision

        watched, plot = self._watched[key], self.design.plots[key.plot]
        decisions = {
            variant.node: watched.decide(variant.node)
            for variant in plot.variants
            if _is_subject(variant, plot) and self._takes_part(key, variant)
        }
        too_many = watched.attempts >= self.study.design.max_trials + MAX_FAILURES
        if too_many or all(said is not Decision.CONTINUE for said in decisions.values()):
            self._done.add(key)
        else:
            known = [node for node, said in decisions.items() if said is Decision.PRECISE]
            self._resting.update((key, node) for node in known)

    def close(self, keys: Sequence[Key]) -> None:
        """Closes cells of which nothing more can be measured."""
        self._done.update(keys)

    def resume(self, trials: Sequence[FinishedTrial]) -> None:
        """Lets what an interrupted run left count."""
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
                    self._count(key, variant, trial)
        for key in self.open():
            if self._watched[key].attempts:
                self.decide(key)

    def plots_of_boots(self, trials: Sequence[FinishedTrial]) -> set[tuple[int, int]]:
        """Boots of stored trials, each with its plot."""
        found = ((trial.planned.boot, self._places_of(trial.planned)) for trial in trials)
        return {(boot, places[0][0].plot) for boot, places in found if len(places) == 1}

    def _places_of(self, planned: PlannedTrial) -> list[tuple[Key, Variant]]:
        """Returns the cells and variants to which a stored trial may belong.

        A trial of the baseline belongs to several plots if these differ in their guests only.
        """
        if not self._by_cell:
            for key in self._watched:
                plot, easy = self.design.plots[key.plot], self.design.cells[key.cell]
                for variant in plot.variants:
                    cell = self.design.trial(plot, variant, easy, 0, 0).cell
                    place = variant.platform, series_key(cell)
                    self._by_cell.setdefault(place, []).append((key, variant))
        return self._by_cell.get((planned.platform, series_key(planned.cell)), [])

    # --- time

    @property
    def any_timed(self) -> bool:
        return bool(self._seconds)

    def blocks_left(self, key: Key) -> int:
        """Returns the most blocks that a cell may still have."""
        return max(0, self.study.design.max_trials - self._watched[key].attempts)

    def block_s(self, key: Key) -> float:
        """Seconds that one block of a cell takes."""
        workload = self.design.cells[key.cell].workload
        unseen = expected_trial_s(self.study, workload), 1
        seen = [
            self._seconds.get((workload, variant.node), unseen)
            for variant in self.design.plots[key.plot].variants
            if self._takes_part(key, variant)
        ]
        return sum(seconds / trials for seconds, trials in seen)


def place_of(key: Key, variant: Variant, planned: PlannedTrial) -> TrialSlot:
    """A trial of a cell, with the levels that are put into the study for it."""
    levels = {factor: level for factor, level in planned.cell.items() if factor != "workload"}
    return TrialSlot(variant, planned, levels, key)


def _is_subject(variant: Variant, plot: WholePlot) -> bool:
    """Whether a variant is measured for its own sake. The baseline is only if the plot has no other
    variant.
    """
    alone = all(other.kind.is_baseline for other in plot.variants)
    return alone or not variant.kind.is_baseline
