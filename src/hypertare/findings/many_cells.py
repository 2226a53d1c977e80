"""One figure over many cells, for claims and plots: their mean, the least or the most of them. Pure."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from hypertare.base.variables import Better, Cell, Level, key, same
from hypertare.findings.series import Series, only_baseline_of, paired
from hypertare.stats import boots, ratio
from hypertare.stats.interval import Interval
from hypertare.stats.over_cells import Which, extreme
from hypertare.study.claims import Claim

Figure = TypeVar("Figure")

Rounds = Mapping[int, float]
"""A figure by the number of its block among those that were planned of its cell."""


@dataclass(frozen=True)
class Over:
    """One figure over `cells` cells and `rounds` rounds, with its interval.

    `low` and `high` are None if nothing varies. `cell` is the chosen cell of a least or most figure.
    `missing` counts the cells that were left out because they lack figures in some rounds.
    """

    estimate: float
    low: float | None
    high: float | None
    cells: int
    missing: int
    rounds: int
    cell: Cell | None = None


def over(
    claim: Claim,
    against: Mapping[str, Level] | None,
    chosen: Sequence[Series],
    every: Sequence[Series],
    baseline: str,
    better: Better,
    confidence: float = 0.95,
) -> Over | str:
    """What the claim measures, over the chosen series, or why it cannot be had.

    Ratios, efficiencies and costs are geometric means, all other measures are arithmetic means. Cells share
    boots, and their common part does not cancel. So the mean over all cells is taken in each round, and the
    interval is over these means, or over boots if boots differ.
    """
    figures = [(one, _figures(claim, against, one, every, baseline, better)) for one in chosen]
    good, shared = _alike(figures)
    if not good:
        return f"fewer than two rounds have a figure of any of its {len(chosen)} cells"
    values = np.array([[rounds[number] for number in shared] for _, rounds in good])
    of_round = _boots_of(good[0][0], shared)
    back = _back(claim, against, better)
    counts = len(good), len(chosen) - len(good), len(shared)
    if claim.over == "mean":
        found_mean = boots.mean(values.mean(axis=0), of_round, confidence).interval
        return Over(*_turned(back, found_mean.estimate, found_mean.low, found_mean.high), *counts)
    # A cost is least where the ratio is most.
    turned = back(1.0) < back(0.0)
    which: Which = "least" if (claim.over == "least") != turned else "most"
    found = extreme(_by_boot(values, of_round), which, confidence)
    ends = _turned(back, found.estimate, found.low, found.high)
    return Over(*ends, *counts, cell=good[found.place][0].cell)


def mean(
    figures: Sequence[tuple[Series, Rounds]], confidence: float = 0.95
) -> tuple[Interval, int] | None:
    """Returns the mean over cells with its interval, and the number of cells in it.

    It rests on the rounds that all cells have. If no round is common to all, it rests on a set of cells
    that have at least two rounds in common.
    """
    if not figures:
        return None
    shared = sorted(set.intersection(*(set(rounds) for _, rounds in figures)))
    if not shared:
        figures, shared = _alike(figures)
    if not figures:
        return None
    values = [float(np.mean([rounds[n] for _, rounds in figures])) for n in shared]
    found = boots.mean(values, _boots_of(figures[0][0], shared), confidence)
    return found.interval, len(figures)


def _alike(
    figures: Sequence[tuple[Series, Rounds]],
) -> tuple[list[tuple[Series, Rounds]], list[int]]:
    """Chooses cells and at least two rounds that each of these cells has, so that the most figures are
    used.

    Of hundreds of cells some fail in a round or two. Such a cell must not exclude the round for all others,
    and a round that few cells have must not exclude the other cells.
    """
    having = Counter(number for _, rounds in figures for number in rounds)
    numbers = sorted(having, key=lambda number: (-having[number], number))
    best: tuple[list[tuple[Series, Rounds]], list[int]] = [], []
    for count in range(2, len(numbers) + 1):
        shared = sorted(numbers[:count])
        good = [(one, rounds) for one, rounds in figures if rounds.keys() >= set(shared)]
        if len(good) * count >= len(best[0]) * len(best[1]):
            best = good, shared
    return best if best[0] else ([], [])


def _turned(
    back: Callable[[float], float], estimate: float, low: float | None, high: float | None
) -> tuple[float, float | None, float | None]:
    if low is None or high is None:
        return back(estimate), None, None
    ends = sorted((back(low), back(high)))
    return back(estimate), ends[0], ends[1]


def _back(
    claim: Claim, against: Mapping[str, Level] | None, better: Better
) -> Callable[[float], float]:
    """From the scale on which figures are averaged to that of the claim."""
    if claim.measure == "ratio" or (claim.measure == "efficiency" and against is None):
        return math.exp
    if claim.measure == "cost" and against is None:
        return lambda log: ratio.cost(log, better)
    return lambda value: value


def _figures(
    claim: Claim,
    against: Mapping[str, Level] | None,
    one: Series,
    every: Sequence[Series],
    baseline: str,
    better: Better,
) -> Rounds:
    """What is averaged, by round: of a cell, or what it has more than the cell that it is held against."""
    is_ratio_of_values = claim.measure == "ratio" and against is not None
    sign = -1 if claim.measure == "efficiency" and better == "lower" else 1
    # Costs and efficiencies of two cells are subtracted as shares, those of one averaged as logs.
    back = _back(claim, None, better) if against is not None else float

    def of(side: Series | None) -> Rounds:
        if side is None:
            return {}
        if claim.measure == "value" or is_ratio_of_values:
            return values_of(side, claim.response, is_ratio_of_values)
        if claim.measure == "difference":
            return _differences(side, claim.response, every, baseline)
        logs = log_ratios(side, claim.response, every, baseline)
        return {number: back(sign * log) for number, log in logs.items()}

    first = of(one)
    if against is None:
        return first
    other = of(_second(one, against, every))
    return {number: first[number] - other[number] for number in first.keys() & other.keys()}


def values_of(one: Series, response: str, logs: bool) -> Rounds:
    """Returns the mean value, or mean log, of a response by round; nothing if a log is impossible."""
    blocks = {n: values for n, values in _numbered(one, one.by_block(response)).items() if values}
    if logs and any(value <= 0 for values in blocks.values() for value in values):
        return {}
    return {
        number: float(np.mean([math.log(value) for value in values] if logs else values))
        for number, values in blocks.items()
    }


def _differences(one: Series, response: str, every: Sequence[Series], baseline: str) -> Rounds:
    """Platform less baseline by round."""
    base = only_baseline_of(one, every, baseline)
    if base is None:
        return {}
    pairs, _ = paired(one, base, response)
    return _numbered(one, dict(zip(pairs.blocks, map(float, pairs.differences), strict=True)))


def log_ratios(one: Series, response: str, every: Sequence[Series], baseline: str) -> Rounds:
    """Platform over baseline by round; none of the baseline itself, or where a ratio is forbidden."""
    base = only_baseline_of(one, every, baseline)
    pairs = None if base is None else paired(one, base, response)[0]
    if pairs is None or pairs.logs is None:
        return {}
    return _numbered(one, dict(zip(pairs.blocks, map(float, pairs.logs), strict=True)))


def _numbered(one: Series, by_block: Mapping[int, Figure]) -> dict[int, Figure]:
    planned = sorted({trial.planned.block for trial in one.trials})
    return {number: by_block[b] for number, b in enumerate(planned) if b in by_block}


def _second(one: Series, against: Mapping[str, Level], every: Sequence[Series]) -> Series | None:
    levels = {**one.cell, **{path: level for path, level in against.items() if path != "platform"}}
    platform = str(against.get("platform", one.platform))
    found = [
        other
        for other in every
        if other.platform == platform
        # Another platform need not have every factor.
        and all(path in levels and same(level, levels[path]) for path, level in other.cell.items())
        and (platform != one.platform or key(other.cell) == key(levels))
        and other is not one
    ]
    return found[0] if len(found) == 1 else None


def _boots_of(one: Series, shared: Sequence[int]) -> list[int]:
    booted = {trial.planned.block: trial.planned.boot for trial in one.trials}
    of_round = [booted[block] for block in sorted(booted)]
    return [of_round[number] for number in shared]


def _by_boot(values: NDArray[np.float64], of_round: Sequence[int]) -> NDArray[np.float64]:
    """Returns the means of boots instead of rounds if there are several boots."""
    known = list(dict.fromkeys(of_round))
    if len(known) < 2:
        return values
    where = np.array(of_round)
    return np.stack([values[:, where == boot].mean(axis=1) for boot in known], axis=1)
