"""What settings do as more is offered to them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hypertare.base.level import Level
from hypertare.report import verdict
from hypertare.report.tables.table import Column, Form, Row, Table, text
from hypertare.report.units import quantity
from hypertare.runs.summary import Curve

FORM = Form(
    "load",
    "Under growing load",
    "The highest goodput, the offered rate at which it is reached, and what is left of it at the "
    "highest rate. Livelock: work goes into packets that are then thrown away.",
    (
        text("setting"),
        Column("peak"),
        Column("at"),
        Column("at most load"),
        text("so it"),
    ),
)


def table(found: Sequence[Curve]) -> Table:
    return FORM.table(workloads(found), rows(found))


def rows(found: Sequence[Curve]) -> Iterator[Row]:
    for one in found:
        share = one.last / one.peak if one.peak > 0 else 0.0
        yield Row(
            (
                _setting(one),
                quantity(one.peak, one.unit),
                _level(one.peak_at),
                f"{100 * share:.0f} %",
                one.kind,
            ),
            one.kind != "undecided",
        )


def workloads(found: Sequence[Curve]) -> str:
    return verdict.workloads(one.cell for one in found)


def _setting(one: Curve) -> str:
    return verdict.setting(one.platform, one.cell, ("workload",))


def _level(level: Level) -> str:
    return str(level).replace(" of capacity", "")
