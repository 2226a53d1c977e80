"""The trials of one platform in one cell, by block and by boot; and the verdict on two of them. Pure."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, TypedDict

from hypertare.base.variables import Cell, Level, Response, key, same
from hypertare.design.trials import FinishedTrial
from hypertare.runs.summary import Clock, Estimate
from hypertare.stats import boots, noise, practical, ratio
from hypertare.stats.boots import Booted
from hypertare.stats.interval import Interval, at
from hypertare.stats.practical import Reason, Verdict
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
    def key(self) -> tuple[str, frozenset[tuple[str, str, Level]]]:
        """Equal for the same platform in equal cells."""
        return self.platform, key(self.cell)

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
    # A report of hundreds of cells asks a million times; `all` of a generator takes twice as long.
    for factor, level in one.cell.items():
        if factor in theirs and factor not in but and not same(level, theirs[factor]):
            return False
    return True


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


@dataclass(frozen=True)
class Rules:
    """How a run is judged: see `hypertare.findings.estimates.estimate`."""

    baseline: str
    confidence: float
    threshold: float
    clock: Clock


@dataclass(frozen=True)
class Comparison:
    """A response of one platform against the baseline: in logs, or as a difference."""

    scale: Literal["log", "difference"]
    mean: Booted
    blocks: int
    size: float
    """What the difference is measured against for its practical size, in the response's unit."""
    difference: Interval | None = None
    """That of the means, beside a ratio. A part that both sides have in common, such as the CPU time of
    peers on the same CPUs, dilutes a ratio and cancels in a difference.
    """


class Compared(TypedDict, total=False):
    """The fields of an estimate that compare."""

    cost: float
    cost_low: float | None
    cost_high: float | None
    difference: float
    difference_low: float | None
    difference_high: float | None
    cost_confidence: float
    verdict: Verdict
    reason: Reason | None


def judged(
    comparison: Comparison,
    response: Response,
    floor: noise.Floor | None,
    rules: Rules,
    level: float | None = None,
) -> Compared:
    """The verdict on a comparison and the interval that it rests on.

    Args:
        level: the interval's confidence: among other comparisons it is higher than by itself
            (`hypertare.stats.practical.levels`).
    """
    level = rules.confidence if level is None else level
    virtual, is_log = rules.clock == "virtual", comparison.scale == "log"
    interval = comparison.mean.interval
    # A difference matters as a share of the largest value seen on either side.
    share = (1 if response.better == "lower" else -1) / (comparison.size or 1.0)

    def loss(end: float) -> float:
        return ratio.cost(end, response.better) if is_log else share * end

    low, high = ends_of(at(interval, level), virtual)
    losses = (None, None) if low is None or high is None else sorted((loss(low), loss(high)))
    ruling = practical.rule(
        loss(interval.estimate),
        *losses,
        threshold=rules.threshold,
        floor=floor.least if is_log and floor and floor.pairs == "same block" else 0.0,
        sure=interval.constant and (virtual or practical.unanimous(interval.n, rules.confidence)),
    )
    found: Compared = {
        "cost_confidence": level,
        "verdict": ruling.verdict,
        "reason": ruling.reason,
    }
    if is_log:
        found["cost"], (found["cost_low"], found["cost_high"]) = loss(interval.estimate), losses
    difference = comparison.difference if is_log else interval
    if difference is not None:
        found["difference"] = difference.estimate
        found["difference_low"], found["difference_high"] = ends_of(at(difference, level), virtual)
    return found


def ratio_of(one: Estimate) -> tuple[float, float | None, float | None] | None:
    """Platform over baseline with the ends of its interval; None where there is no cost."""
    if one.cost is None:
        return None
    ends = [
        None if end is None else ratio.of_cost(end, one.better)
        for end in (one.cost_low, one.cost_high)
    ]
    low, high = ends if one.better == "lower" else reversed(ends)
    return ratio.of_cost(one.cost, one.better), low, high


def ends_of(interval: Interval, virtual: bool) -> tuple[float | None, float | None]:
    """The interval; in virtual time what never varies is its own."""
    if interval.constant and virtual:
        return interval.estimate, interval.estimate
    return interval.low, interval.high
