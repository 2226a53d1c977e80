"""The trials of one platform in one cell, by block and by boot. Pure."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from hypertare.base.level import Cell, Level, key, same
from hypertare.design.trials import FinishedTrial
from hypertare.stats import boots, ratio
from hypertare.stats.interval import Interval
from hypertare.stats.ratio import Pairs


@dataclass(frozen=True)
class Series:
    """Measured trials in the order in which they ran: failed ones included, warm-ups not."""

    platform: str
    cell: Cell
    trials: tuple[FinishedTrial, ...]

    @cached_property
    def good(self) -> tuple[FinishedTrial, ...]:
        """The trials that may enter an estimate."""
        return tuple(trial for trial in self.trials if trial.counts)

    def values(self, response: str, guest: int | None = None) -> tuple[list[float], list[int]]:
        """The values of a response, in order, and the boot of each; of one guest, or of all."""
        known = self._known.get((response, guest))
        if known is None:
            found = [
                (value, trial.planned.boot)
                for trial in self.good
                if (value := _of(trial, guest).get(response)) is not None and math.isfinite(value)
            ]
            known = [value for value, _ in found], [boot for _, boot in found]
            self._known[response, guest] = known
        return known

    @cached_property
    def _known(self) -> dict[tuple[str, int | None], tuple[list[float], list[int]]]:
        """What was asked before: every warning asks for every response again."""
        return {}

    @cached_property
    def guests(self) -> range:
        """Numbers of the guests of which something was measured by itself."""
        return range(1, 1 + max((len(trial.guests) for trial in self.good), default=0))

    def by_block(self, response: str) -> dict[int, list[float]]:
        """The values of a response by block; a planned block that gave none is there, and empty."""
        blocks: dict[int, list[float]] = {trial.planned.block: [] for trial in self.trials}
        for trial in self.good:
            value = trial.values.get(response)
            if value is not None and math.isfinite(value):
                blocks[trial.planned.block].append(value)
        return blocks

    def boots(self) -> dict[int, int]:
        """The boot of each block; the last one where a block saw several."""
        return {trial.planned.block: trial.planned.boot for trial in self.good}


def series(trials: Iterable[FinishedTrial]) -> list[Series]:
    """Measured trials by platform and cell, in the order in which these first appeared."""
    groups: dict[tuple[str, frozenset[tuple[str, str, Level]]], list[FinishedTrial]] = {}
    for trial in trials:
        if trial.planned.kind == "measured":
            groups.setdefault((trial.planned.platform, key(trial.planned.cell)), []).append(trial)
    return [
        Series(group[0].planned.platform, group[0].planned.cell, tuple(group))
        for group in groups.values()
    ]


def baseline_of(sut: Series, every: Sequence[Series], baseline: str) -> list[Series]:
    """The series of the baseline whose cells agree with that of `sut` on every factor they share.

    A guest's cell names what only a guest has, such as its NIC; the baseline's does not. One is
    what a comparison needs; none or several say that the design has no baseline for it.
    """
    return [one for one in every if one.platform == baseline and agree(one, sut)]


def only_baseline_of(sut: Series, every: Sequence[Series], baseline: str) -> Series | None:
    """What `sut` is compared with; None of the baseline itself, and where it has none or several."""
    bases = [] if sut.platform == baseline else baseline_of(sut, every, baseline)
    return bases[0] if len(bases) == 1 else None


def common(cells: Iterable[Cell]) -> Cell:
    """What all cells, one at least, have alike."""
    first, *others = cells
    return {
        path: level
        for path, level in first.items()
        if all(path in cell and same(cell[path], level) for cell in others)
    }


def agree(one: Series, other: Series, but: Collection[str] = ()) -> bool:
    """Whether their cells have the same level of every factor that both have, but for some."""
    theirs = other.cell
    return all(
        same(level, theirs[factor])
        for factor, level in one.cell.items()
        if factor in theirs and factor not in but
    )


def paired(sut: Series, base: Series, response: str) -> tuple[Pairs, list[int]]:
    """Returns the pairs of values in the same block, and the boot of each pair's system under test."""
    mine, its = sut.by_block(response), base.by_block(response)
    pairs = ratio.pair({block: its.get(block, []) for block in mine}, mine)
    booted = sut.boots()
    return pairs, [booted[block] for block in pairs.blocks]


def log_ratio(sut: Series, base: Series, response: str, confidence: float) -> Interval | None:
    """The mean log of the ratio to the baseline; None without blocks of both, or where it has no log."""
    pairs, where = paired(sut, base, response)
    if pairs.logs is None or not pairs.blocks:
        return None
    return boots.mean(pairs.logs, where, confidence).interval


def _of(trial: FinishedTrial, guest: int | None) -> Mapping[str, float]:
    if guest is None:
        return trial.values
    return trial.guests[guest - 1] if guest <= len(trial.guests) else {}
