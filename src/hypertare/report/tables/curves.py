"""The shape of goodput over offered rate, for each setting."""

from __future__ import annotations

from collections.abc import Sequence

from hypertare.base.figures import quantity
from hypertare.base.response import VIRTUAL
from hypertare.report import verdict
from hypertare.report.tables.table import Column, Row, Table, TableSpec, text
from hypertare.report.verdict import Wording
from hypertare.runs.summary import Curve

_LOAD = TableSpec(
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


def curves(found: Sequence[Curve], wording: Wording) -> Table:
    several = len({one.platform for one in found}) > 1
    rows = []
    for one in found:
        share = one.last / one.peak if one.peak > 0 else 0.0
        levels = wording.levels(one.cell)
        cells = (
            f"{one.platform} {levels}".rstrip() if several or not levels else levels,
            quantity(one.peak, one.unit.removesuffix(VIRTUAL)),
            str(one.peak_at).replace(" of capacity", ""),
            f"{100 * share:.0f} %",
            one.kind,
        )
        rows.append(Row(cells, one.kind != "undecided", one.doubt or ""))
    about = verdict.workloads((one.cell for one in found), (one.unit for one in found))
    return _LOAD.table(about, rows)
