"""Measures the cells of a design on a machine on which benches stand, until each cell is precise.

The order of work is `run` -> `_visit` (one boot of a plot) -> `_round` -> `_block`.
"""

from __future__ import annotations

import itertools
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from hypertare.base import loading
from hypertare.base.errors import HypertareError
from hypertare.design.design import WholePlot
from hypertare.design.trials import FinishedTrial, Kind
from hypertare.engine.benches import Benches, NotMade
from hypertare.engine.cell_tracker import CellTracker, Key, place_of
from hypertare.engine.expected import bench_s, visits
from hypertare.engine.trial_recorder import Numbers
from hypertare.machines.batch import TrialSlot
from hypertare.machines.steps import HostAgent

if TYPE_CHECKING:
    from hypertare.engine.session import Session

_MOST_GRACE_S = 60.0
_LEAST_S = 15.0
"""Least seconds that a trial is given: its server may need ten to listen, and a trial must begin to be of
use.
"""


class Campaign:
    """Carries a design out until every cell is precise, at its limit, or time is up."""

    def __init__(
        self,
        session: Session,
        machine: HostAgent,
        further: Sequence[HostAgent] = (),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.study = session.prepared.study
        self.design = session.prepared.design
        self.observer = session.observer
        self.clock = clock
        self.recorder = session.recorder
        self.benches = Benches(machine, self.recorder, session.on, clock, further)
        self.cells = CellTracker(session)
        stored = [trial for trial in session.store.trials() if trial.planned.of_cell]
        self.numbers = Numbers.after(trial.planned for trial in stored)
        self.cells.resume(stored)
        self._started = clock()
        self._visits: Counter[int] = Counter()
        self._turns = Counter(
            (plot, self.benches.host_of(boot)) for boot, plot in self.cells.plots_of_boots(stored)
        )

    def run(self) -> bool:
        """Works until nothing is left to do.

        Returns:
            Whether every cell came to its end, precise or at its limit of trials; `False` when the
            time limit ended the run.
        """
        self._started = self.clock()
        for boot_round in itertools.count():
            if not self.cells.open():
                return True
            for plot in self.design.plot_order(boot_round):
                for keys in self._parts(plot, boot_round):
                    if not any(map(self.cells.is_open, keys)):
                        continue
                    if self._out_of_time(self._visit_s(keys)):
                        return False
                    self._visit(plot, keys)
        return True

    def _parts(self, index: int, boot_round: int) -> list[list[Key]]:
        """The open cells of a plot by visit: where something boots, not more trials than one may have."""
        if self.design.plots[index].boots:
            return self.cells.cut(index, boot_round)
        return [self.cells.open(index)]

    # --- one boot

    def _visit(self, index: int, keys: Sequence[Key]) -> None:
        """Makes the bench of a plot, warms up, takes some blocks of these cells, removes the bench. A run
        that has several hosts goes on without one that is lost.
        """
        try:
            self._visit_host(index, keys)
        except HypertareError as error:
            if not self.benches.has_several or not self.benches.lose_host():
                raise
            self.recorder.warn(f"a host was lost, and the run went on without its boots: {error}")

    def _visit_host(self, index: int, keys: Sequence[Key]) -> None:
        plot, boot = self.design.plots[index], self._new_boot(index)
        self._visits[index] += 1
        self.observer.bench(boot, plot)
        live = self.cells.live_plot(index)
        if not self.cells.has_subjects(index, live):
            self.cells.close(self.cells.open(index))
            return
        if plot.boots:
            # A boot is longer than most warm-ups.
            loading.begin()
        failure = self.benches.make(live, boot)
        if failure is not None:
            self._bench_failed(keys, live, boot, failure)
            return
        try:
            if self._warm_up(keys, boot):
                for repetition in self._repetitions(index, keys):
                    if not self._round(keys, boot, repetition):
                        break
        finally:
            self.benches.down()

    def _new_boot(self, index: int) -> int:
        """Returns the next number of a boot whose host has had the fewest boots of this plot."""
        host = min(self.benches.living, key=lambda one: (self._turns[index, one], one))
        self._turns[index, host] += 1
        boot = self.numbers.new_boot()
        while self.benches.host_of(boot) != host:
            boot = self.numbers.new_boot()
        return boot

    def _repetitions(self, index: int, keys: Sequence[Key]) -> Iterator[int]:
        """Blocks of a visit. Where nothing boots, another bench on the same host is no other sample: one
        lasts to the end of the run, unless other plots or hosts need theirs in between.
        """
        lasts = not self.design.plots[index].boots and len(self.design.plots) == 1
        lasts = lasts and not self.benches.has_several
        for repetition in itertools.count():
            enough = repetition >= self.study.design.blocks_of_a_boot
            if enough and not lasts and not self._stays(index, keys):
                return
            yield repetition

    def _stays(self, index: int, keys: Sequence[Key]) -> bool:
        """Whether a plot keeps its first boot to the end, because the time does not suffice for two more
        boots.

        Trials of two boots show less than the same number of trials of one.
        """
        if (
            not self.design.plots[index].boots
            or self._visits[index] > 1
            or self.benches.has_several
        ):
            return False
        wanted = list(filter(self.cells.is_open, keys))
        plots = len({key.plot for key in self.cells.open()})
        return bool(wanted) and self._out_of_time(2 * plots * self._visit_s(wanted))

    def _bench_failed(
        self, keys: Sequence[Key], plot: WholePlot, boot: int, failure: NotMade
    ) -> None:
        """Counts the failure against the node that is to blame, in every cell that is still open."""
        block = self.numbers.new_block()
        blamed = [variant for variant in plot.variants if failure.node in variant.nodes]
        for variant in blamed or plot.variants:
            for key in filter(self.cells.is_open, keys):
                easy = self.design.cells[key.cell]
                planned = self.design.trial(plot, variant, easy, block, boot)
                place = place_of(key, variant, self.numbers.numbered(planned))
                self._take(place, self.benches.fail(place, failure.error, failure.records))

    # --- blocks

    def _warm_up(self, keys: Sequence[Key], boot: int) -> bool:
        """Runs each command a few times uncounted on every variant; `False` when the boot must end."""
        loading.begin()
        for key in filter(self.cells.warms_up, keys):
            for _ in range(self.study.design.warmup):
                if self.cells.is_open(key) and not self._block(key, boot, "warmup"):
                    return False
        return True

    def _round(self, keys: Sequence[Key], boot: int, repetition: int) -> bool:
        """One block of each cell that is still open; `False` when the boot must end."""
        loading.wait()
        of_cell = {key.cell: key for key in keys}
        for cell in self.design.cell_order(boot, repetition):
            key = of_cell.get(cell)
            if key is None or not self.cells.is_open(key):
                continue
            if self._out_of_time(self.cells.block_s(key), of_none=not self.cells.attempts(key)):
                return False
            if not self._block(key, boot, "measured"):
                return False
            self.cells.decide(key)
        return any(map(self.cells.is_open, keys))

    def _block(self, key: Key, boot: int, kind: Kind) -> bool:
        """One trial of every variant, in random order; `False` when a node was lost."""
        block = self.numbers.new_block()
        with self.benches.others.block(block):
            for place in self.cells.places(key, block, boot, kind):
                left_s = self._limit_s + self._grace_s - (self.clock() - self._started)
                if left_s <= 0 and self.cells.any_timed:
                    return False
                place = self.numbers.placed(place)
                live = self.cells.live_plot(key.plot)
                self._take(place, self.benches.run(place, live, round(max(left_s, _LEAST_S), 1)))
                if self.benches.lost:
                    return False
        return True

    def _take(self, place: TrialSlot, finished: FinishedTrial) -> None:
        self.cells.enter(place, finished)
        self.observer.end(finished, self.remaining_s())

    # --- time

    @property
    def _limit_s(self) -> float:
        return self.study.design.time_limit

    @property
    def _grace_s(self) -> float:
        """Seconds that a run may exceed its limit if it would otherwise end without a figure."""
        return min(self._limit_s / 2, _MOST_GRACE_S)

    def _out_of_time(self, ahead_s: float, *, of_none: bool = False) -> bool:
        """Whether work of `ahead_s` seconds would end beyond the time limit.

        Before any trial has been timed the answer is no, unless the limit has passed already. With
        `of_none` the work is the first block of a cell and may use the grace time.
        """
        elapsed = self.clock() - self._started
        limit = self._limit_s + (self._grace_s if of_none else 0.0)
        return elapsed >= limit or (self.cells.any_timed and elapsed + ahead_s > limit)

    def _visit_s(self, open_here: Sequence[Key]) -> float:
        """Seconds of the least that makes a boot worth while: warm-ups and one block."""
        warm = sum(self.cells.block_s(key) for key in open_here if self.cells.warms_up(key))
        make = bench_s(self.design.plots[open_here[0].plot])
        return make + self.study.design.warmup * warm + self.cells.block_s(open_here[0])

    def remaining_s(self) -> float:
        """Most time that the rest may take: every open cell to its limit, but not beyond the time limit."""
        seconds = 0.0
        for key in self.cells.open():
            plot, left = self.design.plots[key.plot], self.cells.blocks_left(key)
            boots = visits(self.study, self.design, plot, left)
            warm = self.study.design.warmup if self.cells.warms_up(key) else 0
            seconds += (left + boots * warm) * self.cells.block_s(key)
            seconds += boots * bench_s(plot) / len(self.design.cells)
        left_of_limit = self.study.design.time_limit - (self.clock() - self._started)
        return max(0.0, min(seconds, left_of_limit))
