"""The shape of goodput over offered rate, for each setting."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hypertare.base.figures import quantity
from hypertare.base.level import Level
from hypertare.base.response import VIRTUAL
from hypertare.report import verdict
from hypertare.report.tables.table import Column, Row, Table, TableSpec, text
from hypertare.report.verdict import Wording
from hypertare.runs.summary import Curve

FORM = TableSpec(
    "load",
    "Under growing load",
    "The highest goodput, the offered rate at which it is reached, and what is left of it at the "
    "highest rate that was offered. Livelock: work goes into packets that are then thrown away.",
    (
        text("setting"),
        Column("peak"),
        Column("at"),
        Column("at most load"),
        text("so it"),
    ),
)


def table(found: Sequence[Curve], wording: Wording) -> Table:
    return FORM.table(workloads(found), rows(found, wording))


def rows(found: Sequence[Curve], wording: Wording) -> Iterator[Row]:
    several = len({one.platform for one in found}) > 1
    for one in found:
        share = one.last / one.peak if one.peak > 0 else 0.0
        levels = wording.levels(one.cell)
        yield Row(
            (
                f"{one.platform} {levels}".rstrip() if several or not levels else levels,
                quantity(one.peak, one.unit.removesuffix(VIRTUAL)),
                _level(one.peak_at),
                f"{100 * share:.0f} %",
                one.kind,
            ),
            one.kind != "undecided",
            one.doubt or "",
        )


def workloads(found: Sequence[Curve]) -> str:
    """With the mark of the clock, which stands for all figures below."""
    names = verdict.workloads(one.cell for one in found)
    return names + (VIRTUAL if any(one.unit.endswith(VIRTUAL) for one in found) else "")


def _level(level: Level) -> str:
    return str(level).replace(" of capacity", "")
