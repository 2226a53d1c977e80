"""Asked blocks on a machine that takes one trial after the other, on benches that stand.

A block begins with the settings that fit the bench that stands, so that two settings that need two
benches run as ABBA: half as many boots, and a steady drift cancels.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence

from hypertare.base.level import Cell, key
from hypertare.design.asks import Ask
from hypertare.design.design import MAX_GUESTS, Variant, WholePlot, is_hard, name_nodes
from hypertare.design.trials import FinishedTrial, Kind
from hypertare.engine.benches import Benches
from hypertare.engine.trial_runner import Asking, TrialRunner, levels_of
from hypertare.machines.batch import TrialSlot
from hypertare.machines.steps import HostAgent
from hypertare.platforms.registry import BASELINE, find, is_own_setting


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
