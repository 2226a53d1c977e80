"""Several guests that work at once: goodput, CPU time, their share of a line, and what laws predict."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from hypertare.base import figures
from hypertare.base.figures import quantity, word
from hypertare.base.variables import VIRTUAL, Level, key
from hypertare.report import verdict
from hypertare.report.tables.table import Column, Row, Table, TableSpec, text
from hypertare.runs.summary import Estimate, Predictability, Prediction, Summary
from hypertare.study.factors import GUESTS
from hypertare.workloads.sending import SHARE, THEORETICAL

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


_CPU = TableSpec(
    "together-cpu",
    "CPU of guests at once",
    "CPU efficiency: native's CPU time over that of the whole machine, for the trial and for each byte; 1 "
    "costs nothing. Shares are of one CPU: of all guests, and of the driver domain that works for them.",
    (
        text("setting"),
        Column("guests"),
        Column("CPU efficiency"),
        Column("for each byte"),
        Column("Jain's index"),
        Column("guests"),
        Column("driver domain"),
    ),
)


def cpu_table(found: Sequence[Group]) -> Table:
    rows = (
        Row(
            (
                verdict.setting(one.platform, one.cell),
                str(one.guests),
                efficiency(one.responses.get("machine_cpu")),
                efficiency(one.responses.get("cpu_per_gigabyte")),
                index(one.responses.get("jain_cpu")),
                value(one.responses.get("outside_cpu_share")),
                value(one.responses.get("driver_cpu_share")),
            )
        )
        for one in found
    )
    return _CPU.table(workloads_of(found), rows)


LINE = TableSpec(
    "line",
    "Of the line",
    "Goodput of all guests together beside what the line carries at most: its rate less what headers, "
    "frames and the gaps between them take. 1 fills the line.",
    (text("setting"), Column("goodput"), Column("theoretical"), Column("of the line")),
)


def line_table(summary: Summary) -> Table:
    """Of each platform in each cell with a line, in the order of the estimates."""
    cells: dict[tuple[str, object], dict[str, Estimate]] = {}
    for one in summary.estimates:
        cells.setdefault((one.platform, key(one.cell)), {})[one.response] = one
    found = [of for of in cells.values() if {"goodput", THEORETICAL, SHARE} <= of.keys()]
    rows = []
    for of in found:
        goodput, most, share = of["goodput"], of[THEORETICAL], of[SHARE]
        theoretical = figures.quantity(most.estimate, most.unit.removesuffix(VIRTUAL), digits=4)
        part = around(share.estimate, share.low, share.high, 2)
        setting = verdict.setting(goodput.platform, goodput.cell)
        rows.append(Row((setting, value(goodput), theoretical, part)))
    goodputs = [of["goodput"] for of in found]
    about = verdict.workloads((one.cell for one in goodputs), (one.unit for one in goodputs))
    return LINE.table(about, rows)


LAWS = TableSpec(
    "predictability",
    "Predictability",
    "Each law is fitted to some numbers of guests and predicts another, which it has not seen. The error "
    "is predicted over measured, less 1, with its interval; a setting is predictable where the whole "
    "interval lies within the bound.",
    (
        text("setting"),
        text("law"),
        text("fitted to"),
        Column("predicts"),
        Column("predicted"),
        Column("measured"),
        Column("error"),
        text("so it is"),
    ),
)


def laws_table(found: Sequence[Predictability]) -> Table:
    about = verdict.workloads((one.cell for one in found), (one.unit for one in found))
    return LAWS.table(about, (row for one in found for row in _of_law(one)))


def _of_law(one: Predictability) -> Iterator[Row]:
    setting = verdict.setting(one.platform, one.cell)
    fitted = ", ".join(map(str, one.fitted)) or "the line"
    law = f"{word(one.response)}, {one.law}"
    if one.reason is not None:
        yield Row((setting, law, fitted, *("–",) * 4, one.verdict), False, one.reason)
    for prediction in one.predictions:
        cells = (
            setting,
            law,
            fitted,
            str(prediction.guests),
            quantity(prediction.predicted, one.unit.removesuffix(VIRTUAL)),
            quantity(prediction.measured, one.unit.removesuffix(VIRTUAL)),
            _error(prediction),
            f"{one.verdict} (±{100 * one.most:g} %)",
        )
        yield Row(cells, one.verdict != "undecided", prediction.doubt or "")


def _error(one: Prediction) -> str:
    error, low, high = (
        "" if share is None else f"{100 * share:+.1f}".replace("-", "−")
        for share in (one.error, one.error_low, one.error_high)
    )
    if not low or not high or one.error_low == one.error_high:
        return f"{error} %"
    return f"{error} % ({low} to {high})"
