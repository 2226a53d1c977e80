"""The tables of what a run found of settings, in their order."""

from __future__ import annotations

from collections.abc import Iterator

from hypertare.report.model import Report
from hypertare.report.tables import (
    analyses,
    bills,
    curves,
    effects,
    guests,
    guests_cpu,
    laws,
    levels,
    line,
    loss_free,
    published,
    shifts,
    totals,
)
from hypertare.report.tables.table import Table

_MOST_OF_LINE = 24
"""Rows; of more the grid of goodput shows most."""
_FOR_THOSE_WHO_ASK = frozenset({levels.FORM.id, shifts.FORM.id})


def is_left_out(table: Table, report: Report) -> bool:
    """Whether a first screen and a short document leave a table out.

    These are tables for further reading, laws that the study does not ask about, and the line's table if it
    has many rows.
    """
    if table.id == laws.FORM.id:
        return not report.meta.settings.get("predictability")
    if table.id == line.FORM.id:
        return len(table.rows) > _MOST_OF_LINE
    return table.id in _FOR_THOSE_WHO_ASK


def tables(report: Report) -> Iterator[Table]:
    """Returns all tables that have rows."""
    summary = report.summary
    groups = guests.groups(summary)
    every = (
        effects.table(summary.effects, report.wording),
        levels.table(summary.levels, report.wording),
        guests.table(groups),
        guests_cpu.table(groups),
        line.table(line.filled(summary)),
        laws.table(summary.predictability),
        totals.table(totals.lines(summary, report.wording)),
        published.table(summary.published),
        shifts.table(summary),
        bills.table(summary),
        *analyses.tables(summary),
        curves.table(summary.curves, report.wording),
        loss_free.table(summary.loss_free),
    )
    return (table for table in every if table.rows)
