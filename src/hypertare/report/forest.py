"""Rows for comparisons: the change, its interval, and a bar beside the mark of no change."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from hypertare.base import figures
from hypertare.base.figures import word
from hypertare.base.variables import VIRTUAL
from hypertare.probes.cpu_time import STAT
from hypertare.report import answers, verdict
from hypertare.report.model import Report
from hypertare.report.verdict import Tone
from hypertare.runs.summary import Estimate, LevelChange
from hypertare.stats.ratio import of_cost

MOST = 20
"""Rows that an eye takes in; more comparisons are a table over the factors."""


@dataclass(frozen=True)
class Ends:
    """The ends and the middle of a bar, relative to the point of no change."""

    low: float
    middle: float
    high: float


@dataclass(frozen=True)
class Row:
    """A row of a forest plot, as texts.

    `value` is the measured mean, empty for a comparison of levels. `change` is empty for a baseline. `bar`
    is None if the interval cannot be drawn.
    """

    name: str
    value: str
    change: str
    interval: str
    tone: Tone
    bar: Ends | None


@dataclass(frozen=True)
class Forest:
    """Comparisons of one response: their bars have one scale. `interval` heads the column of intervals."""

    title: str
    interval: str
    rows: tuple[Row, ...]

    def place(self, at: float) -> float:
        """Where on the scale of all bars a point lies, from 0 to 1."""
        bars = [row.bar for row in self.rows if row.bar is not None]
        low = min([0.0, *(bar.low for bar in bars)])
        high = max([0.0, *(bar.high for bar in bars)])
        if low == high:
            low, high = -1.0, 1.0
        return (at - low) / (high - low)


def of_levels(report: Report) -> list[Forest]:
    """What the levels of factors change; of many only the largest (`answers.largest`)."""
    every = answers.largest(report.summary)
    several = len({report.wording.label(one.cell) for one in every}) > 1
    # Rows with the same levels compared are grouped under a title that names the levels, which may be
    # long, such as commands: if each group has several rows.
    counts = Counter((answers.compared(one), one.response) for one in every)
    apart = bool(counts) and min(counts.values()) > 1
    interval = verdict.heading(every, report.meta.confidence)
    groups: dict[tuple[str, str], list[LevelChange]] = {}
    for one in every:
        groups.setdefault((answers.compared(one) if apart else "", one.response), []).append(one)
    return [
        Forest(
            f"{compared}: {_title(group)}" if compared else _title(group),
            interval,
            tuple(_level(one, report, several, names_levels=not apart) for one in group),
        )
        for (compared, _), group in groups.items()
    ]


def of_platforms(report: Report) -> list[Forest]:
    """Returns the comparisons of the leading responses with the baseline; nothing if there are more than
    `MOST`.

    A run of one cell also has the CPU time of the whole machine.
    """
    leading = report.leading
    if not leading or len(leading) > MOST:
        return []
    chosen = _of_one_cell(report) if len(report.cells) == 1 else leading
    interval = verdict.heading(chosen, report.meta.confidence)
    groups: dict[str, list[Estimate]] = {}
    for one in chosen:
        groups.setdefault(one.response, []).append(one)
    return [
        Forest(_title(group), interval, tuple(_platform(one, report) for one in group))
        for group in groups.values()
    ]


def _of_one_cell(report: Report) -> list[Estimate]:
    """Returns the estimates for the rows of a run with one cell, those of the baseline included; and the
    whole machine's CPU time, if the run has values and costs of it.
    """
    shown = set(report.meta.headline.values())
    cpu = [one for one in report.summary.estimates if one.response == STAT.machine_cpu.name]
    if any(one.baseline for one in cpu) and any(one.estimate for one in cpu):
        shown.add(STAT.machine_cpu.name)
    return [one for one in report.estimates() if one.response in shown]


def _platform(one: Estimate, report: Report) -> Row:
    platform = report.wording.platform(one.platform, one.cell)
    several = len(report.cells) > 1
    name = f"{report.wording.label(one.cell)} {platform}" if several else platform
    # The title has the mark of the clock, and a unit that is a noun.
    unit = "" if figures.counted(one.unit) else one.unit.removesuffix(VIRTUAL)
    value, _ = verdict.mean_text(one, unit)
    if one.baseline is None:
        return Row(name, value, "", "", "same", None)
    if verdict.is_taken_back(one):
        return Row(name, value, "", one.doubt or "", "unknown", None)
    return _row(name, value, one, report)


def _level(one: LevelChange, report: Report, several: bool, *, names_levels: bool) -> Row:
    parts = [report.wording.platform(one.platform, one.cell)]
    parts += [answers.compared(one)] if names_levels else []
    parts += [f"in {report.wording.label(one.cell)}"] if several else []
    name = " ".join(parts)
    if one.doubt is not None:
        return Row(name, "", "", one.doubt, "unknown", None)
    return _row(name, "", one, report)


def _row(name: str, value: str, one: Estimate | LevelChange, report: Report) -> Row:
    change, interval = verdict.cost_text(one, report.wording)
    if one.reason == "few":
        interval = verdict.undecided_why(one)
    return Row(name, value, change, interval, verdict.tone(one), _ends(one, report))


def _ends(one: Estimate | LevelChange, report: Report) -> Ends | None:
    """Returns the ends of a row's bar, None if it cannot be drawn.

    Ratios that are given as factors are drawn by their logarithms, so that half is as far out as double.
    """
    if one.cost is None:
        low, high = one.difference_low, one.difference_high
        if low is None or one.difference is None or high is None:
            return None
        return Ends(low, one.difference, high)
    ratios = verdict.ratios(one)
    if len(ratios) < 2 or (one.verdict == "undecided" and ratios[1] > _MOST_UNDECIDED):
        return None
    middle = of_cost(one.cost, one.better)
    points = [ratios[0], middle, ratios[1]]
    if one.response in report.wording.in_factors:
        points = [math.log(max(point, _LEAST)) + 1 for point in points]
    return Ends(*(point - 1 for point in points))


_MOST_UNDECIDED = 10.0
"""A ratio from which on an undecided bar would leave no room for those that are decided."""

_LEAST = 1e-3
"""Least ratio that a bar shows; a smaller one is drawn here."""


def _title(group: Sequence[Estimate] | Sequence[LevelChange]) -> str:
    """For example: elapsed, seconds (lower is better), n = 22 blocks"""
    one = group[0]
    unit = f", {one.unit}" if figures.counted(one.unit) else ""
    clock = VIRTUAL if one.unit.endswith(VIRTUAL) else ""
    blocks = sorted({one.blocks for one in group if one.blocks})
    basis = ""
    if blocks:
        ends = f"{blocks[0]} to {blocks[-1]}" if len(blocks) > 1 else f"{blocks[0]}"
        basis = f", n = {ends} block{'s' if ends != '1' else ''}"
    return f"{word(one.response)}{unit}{clock} ({one.better} is better){basis}"


def bars(forest: Forest, width: int) -> Iterator[str]:
    """Each row's interval in so many characters: `    │   ━━●━━━`; nothing of a row without one."""
    zero = _column(forest.place(0.0), width)
    for row in forest.rows:
        if row.bar is None:
            yield ""
            continue
        ends = (row.bar.low, row.bar.middle, row.bar.high)
        low, middle, high = (_column(forest.place(at), width) for at in ends)
        drawn = [" "] * width
        drawn[low : high + 1] = "━" * (high + 1 - low)
        drawn[zero] = "┿" if low <= zero <= high else "│"
        drawn[middle] = "●"
        yield "".join(drawn).rstrip()


def _column(place: float, width: int) -> int:
    return min(width - 1, max(0, round(place * (width - 1))))
