"""What a study's analyses found, each a table of its own."""

from __future__ import annotations

from collections.abc import Iterator

from hypertare.base import figures
from hypertare.base.response import VIRTUAL
from hypertare.report import verdict
from hypertare.report.tables.table import Column, Row, Table, text
from hypertare.runs.summary import Analysed, AnalysedFigure, AnalysedRow, Summary


def tables(summary: Summary) -> Iterator[Table]:
    virtual = VIRTUAL if summary.clock == "virtual" else ""
    for one in summary.analyses:
        columns = (text("setting"), text("of"), *map(Column, one.columns))
        about = verdict.workloads(row.cell for row in one.rows)
        title = f"{one.title} of {about}{virtual}"
        yield Table(one.name, one.title, title, one.note, columns, tuple(_rows(one)))


def _rows(of: Analysed) -> Iterator[Row]:
    for row in of.rows:
        yield Row((_named(row), row.what, *map(_shown, row.figures)))


def _named(row: AnalysedRow) -> str:
    return f"{row.cell['workload']} {verdict.setting(row.platform, row.cell, ('workload',))}"


def _shown(figure: AnalysedFigure | None) -> str:
    if figure is None:
        return "–"
    value, interval = figures.measured(figure.estimate, figure.low, figure.high, figure.unit)
    return f"{value} ({interval})" if interval else value
