"""The tables of what a run found of settings, in their order."""

from __future__ import annotations

from collections.abc import Iterator

from hypertare.report.model import Report
from hypertare.report.tables import effects
from hypertare.report.tables.analyses import analyses, bill_table
from hypertare.report.tables.effects import LEVELS, levels_table
from hypertare.report.tables.guests import (
    LAWS,
    LINE,
    cpu_table,
    groups,
    guests_table,
    laws_table,
    line_table,
)
from hypertare.report.tables.rates import curves, loss_free
from hypertare.report.tables.ratios import lines, published_table, total_table
from hypertare.report.tables.shifts import SHIFTS, shift_table
from hypertare.report.tables.table import Table

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
