"""How much of a line of a limited rate streams filled."""

from __future__ import annotations

from hypertare.base import figures
from hypertare.base.level import key
from hypertare.base.response import VIRTUAL
from hypertare.report import verdict
from hypertare.report.tables.guests import around, value
from hypertare.report.tables.table import Column, Row, Table, TableSpec, text
from hypertare.runs.summary import Estimate, Summary
from hypertare.workloads.line_share import SHARE, THEORETICAL

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
