"""Goodput, efficiency and fairness of several guests that work at once."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hypertare.base import figures
from hypertare.base.level import Level, key
from hypertare.base.response import VIRTUAL
from hypertare.report import verdict
from hypertare.report.tables.table import Column, Row, Table, TableSpec, text
from hypertare.runs.summary import Estimate, Summary
from hypertare.study.factors import GUESTS

_TOGETHER = TableSpec(
    "together",
    "Guests at once",
    "Goodput of all guests, and of those that got least and most: over the time in which all of them ran, "
    "or over a guest's own where that is less. A note says where all ran in less than 80 % of the longest "
    "one's time; below 50 % in a trial no claim is decided by it. "
    "Efficiency: goodput over native's; 1 loses nothing. Of one alone: what a guest gets on average, over "
    "what it gets without others. Jain's index: 1 where all get the same, 1 over their number where one "
    "gets everything.",
    (
        text("setting"),
        Column("guests"),
        Column("goodput"),
        Column("efficiency"),
        Column("least to most"),
        Column("of one alone"),
        Column("Jain's index"),
    ),
)

LITTLE_OVERLAP = 0.8
"""Of the longest stream's time: with less, goodput and Jain's index leave much of it out."""

Responses = Mapping[str, Estimate]


@dataclass(frozen=True)
class Group:
    """The responses of one platform in one cell."""

    platform: str
    cell: dict[str, Level]
    guests: int
    responses: Responses


def groups(summary: Summary) -> list[Group]:
    """Returns the responses of streams by platform, setting and number of guests, if that number is a
    factor.
    """
    baselines = {e.baseline for e in summary.estimates}
    cells: dict[tuple[str, object], dict[str, Estimate]] = {}
    for one in summary.estimates:
        if one.platform not in baselines:
            cells.setdefault((one.platform, key(one.cell)), {})[one.response] = one
    made: dict[tuple[str, object], list[Group]] = {}
    for responses in cells.values():
        goodput = responses.get("goodput")
        if goodput is not None and GUESTS in goodput.cell:
            setting = {f: level for f, level in goodput.cell.items() if f != GUESTS}
            group = Group(goodput.platform, setting, int(goodput.cell[GUESTS]), responses)
            made.setdefault((goodput.platform, key(setting)), []).append(group)
    return [group for of in made.values() for group in sorted(of, key=lambda one: one.guests)]


def guests_table(found: Sequence[Group]) -> Table:
    rows = (
        Row(
            (
                verdict.setting(one.platform, one.cell),
                str(one.guests),
                value(one.responses.get("goodput")),
                efficiency(one.responses.get("goodput")),
                _ends(one.responses),
                _of_alone(one.responses.get("goodput")),
                index(one.responses.get("jain_goodput")),
            ),
            note=_apart(one.responses.get("overlap")),
        )
        for one in found
    )
    return _TOGETHER.table(workloads_of(found), rows)


def workloads_of(found: Sequence[Group]) -> str:
    units = (e.unit for one in found for e in one.responses.values())
    return verdict.workloads((one.cell for one in found), units)


def value(one: Estimate | None) -> str:
    return "–" if one is None else figures.quantity(one.estimate, one.unit.removesuffix(VIRTUAL))


def index(one: Estimate | None) -> str:
    return "–" if one is None else around(one.estimate, one.low, one.high, 3)


def efficiency(one: Estimate | None) -> str:
    """Returns the efficiency that a cost leaves: the ratio to the baseline, the way round in which 1 is no
    cost.
    """
    if one is None or one.cost is None:
        return "–"
    ends = sorted(_kept(end, one) for end in (one.cost_low, one.cost_high) if end is not None)
    low, high = ends if len(ends) == 2 else (None, None)
    return around(_kept(one.cost, one), low, high, 2)


def around(middle: float, low: float | None, high: float | None, places: int) -> str:
    if low is None or high is None or low == high:
        return f"{middle:.{places}f}"
    return f"{middle:.{places}f} ({low:.{places}f} to {high:.{places}f})"


def _ends(known: Responses) -> str:
    """Both in the unit of the larger."""
    least, most = known.get("least_rate"), known.get("most_rate")
    if least is None or most is None:
        return "–"
    divisor, unit = figures.scale(most.estimate, most.unit.removesuffix(VIRTUAL))
    ends = (figures.significant(one.estimate / divisor, 3) for one in (least, most))
    return f"{' to '.join(ends)} {unit}"


def _kept(cost: float, one: Estimate) -> float:
    if one.better == "higher":
        return 1 - cost
    return 1 / (1 + cost) if cost > -1 else math.inf


def _apart(overlap: Estimate | None) -> str:
    """Returns a note if all guests ran at once for only a small part of the time.

    Goodput leaves out the rest: the time before a starving guest begins and after it ends.
    """
    if overlap is None or overlap.estimate >= LITTLE_OVERLAP:
        return ""
    return f"all ran in only {100 * overlap.estimate:.0f} % of the longest one's time"


def _of_alone(goodput: Estimate | None) -> str:
    if goodput is None or goodput.of_alone is None:
        return "–"
    return around(goodput.of_alone, goodput.of_alone_low, goodput.of_alone_high, 3)
