"""How much of a line of a limited rate streams filled."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hypertare.base import figures
from hypertare.base.level import key
from hypertare.base.response import VIRTUAL
from hypertare.report import verdict
from hypertare.report.tables.guests import around, value
from hypertare.report.tables.table import Column, Row, Table, TableSpec, text
from hypertare.runs.summary import Estimate, Summary
from hypertare.workloads.line_share import SHARE, THEORETICAL

FORM = TableSpec(
    "line",
    "Of the line",
    "Goodput of all guests together beside what the line carries at most: its rate less what headers, "
    "frames and the gaps between them take. 1 fills the line.",
    (text("setting"), Column("goodput"), Column("theoretical"), Column("of the line")),
)


def filled(summary: Summary) -> list[tuple[Estimate, Estimate, Estimate]]:
    """Goodput, theoretical goodput and share of each platform in each cell with a line, in the order of
    the estimates.
    """
    cells: dict[tuple[str, object], dict[str, Estimate]] = {}
    for one in summary.estimates:
        cells.setdefault((one.platform, key(one.cell)), {})[one.response] = one
    return [
        (of["goodput"], of[THEORETICAL], of[SHARE])
        for of in cells.values()
        if SHARE in of and THEORETICAL in of and "goodput" in of
    ]


def table(found: Sequence[tuple[Estimate, Estimate, Estimate]]) -> Table:
    return FORM.table(workloads(found), rows(found))


def rows(found: Sequence[tuple[Estimate, Estimate, Estimate]]) -> Iterator[Row]:
    for goodput, theoretical, share in found:
        most = figures.quantity(
            theoretical.estimate, theoretical.unit.removesuffix(VIRTUAL), digits=4
        )
        part = around(share.estimate, share.low, share.high, 2)
        setting = verdict.setting(goodput.platform, goodput.cell)
        yield Row((setting, value(goodput), most, part))


def workloads(found: Sequence[tuple[Estimate, Estimate, Estimate]]) -> str:
    """With the mark of the clock, which stands for all figures below."""
    names = verdict.workloads(one.cell for one, _, _ in found)
    return names + (VIRTUAL if any(one.unit.endswith(VIRTUAL) for one, _, _ in found) else "")
