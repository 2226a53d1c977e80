"""What a study's analyses found, each a table of its own."""

from __future__ import annotations

from collections.abc import Iterator

from hypertare.base import figures
from hypertare.report import verdict
from hypertare.report.tables.table import Column, Row, Table, text, with_interval
from hypertare.runs.summary import AnalysedFigure, Summary
from hypertare.workloads.responses import mark_of


def analyses(summary: Summary) -> Iterator[Table]:
    for one in summary.analyses:
        columns = (text("setting"), text("of"), *map(Column, one.columns))
        about = verdict.workloads(row.cell for row in one.rows) + mark_of(summary.clock)
        rows = tuple(
            Row(
                (
                    f"{row.cell['workload']} {verdict.setting(row.platform, row.cell, ('workload',))}",
                    row.what,
                    *map(_shown, row.figures),
                )
            )
            for row in one.rows
        )
        yield Table(one.name, one.title, f"{one.title} of {about}", one.note, columns, rows)


def _shown(figure: AnalysedFigure | None) -> str:
    if figure is None:
        return "–"
    return with_interval(*figures.measured(figure.estimate, figure.low, figure.high, figure.unit))
