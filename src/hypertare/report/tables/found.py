"""The tables of what a run found of settings, in their order."""

from __future__ import annotations

from collections.abc import Iterator

from hypertare.report.model import Report
from hypertare.report.tables import effects
from hypertare.report.tables.analyses import analyses
from hypertare.report.tables.bills import bill_table
from hypertare.report.tables.curves import curves
from hypertare.report.tables.guests import groups, guests_table
from hypertare.report.tables.guests_cpu import cpu_table
from hypertare.report.tables.laws import LAWS, laws_table
from hypertare.report.tables.levels import LEVELS, levels_table
from hypertare.report.tables.line import LINE, line_table
from hypertare.report.tables.loss_free import loss_free
from hypertare.report.tables.published import published_table
from hypertare.report.tables.shifts import SHIFTS, shift_table
from hypertare.report.tables.table import Table
from hypertare.report.tables.totals import lines, total_table

_MOST_OF_LINE = 24
"""Rows; of more the grid of goodput shows most."""


def is_left_out(table: Table, report: Report) -> bool:
    """Whether a first screen and a short document leave a table out.

    These are tables for further reading, laws that the study does not ask about, and the line's table if it
    has many rows.
    """
    if table.id == LAWS.id:
        return not report.meta.settings.get("predictability")
    if table.id == LINE.id:
        return len(table.rows) > _MOST_OF_LINE
    return table.id in (LEVELS.id, SHIFTS.id)


def tables(report: Report) -> Iterator[Table]:
    """Returns all tables that have rows."""
    summary, wording = report.summary, report.wording
    several = groups(summary)
    every = (
        effects.table(summary.effects, wording),
        levels_table(summary.levels, wording),
        guests_table(several),
        cpu_table(several),
        line_table(summary),
        laws_table(summary.predictability),
        total_table(lines(summary, wording)),
        published_table(summary.published),
        shift_table(summary),
        bill_table(summary),
        *analyses(summary),
        curves(summary.curves, wording),
        loss_free(summary.loss_free),
    )
    return (table for table in every if table.rows)
