"""Published figures of others beside this run's own."""

from __future__ import annotations

from collections.abc import Sequence

from hypertare.base.figures import significant
from hypertare.base.words import word
from hypertare.report import verdict
from hypertare.report.tables.table import Column, Row, Table, TableSpec, text
from hypertare.report.tables.totals import ratio_interval
from hypertare.runs.summary import Published
from hypertare.study.walk import PROCESSOR

PUBLISHED = TableSpec(
    "published",
    "Published, and here",
    "Ratios to native, each from measurements of one's own: other machines, kernels and programs. "
    "Compare which is larger, not the digits.",
    (
        text("setting"),
        text("response"),
        Column("published"),
        Column("here"),
        Column("interval"),
        text("on"),
    ),
    notes="source",
)


def published_table(found: Sequence[Published]) -> Table:
    """Of what this run has too; the source stands once, with the first of its figures."""
    said: set[str] = set()
    rows = []
    for one in found:
        if one.ratio is None:
            continue
        source = "" if one.source in said else one.source
        said.add(one.source)
        cells = (
            f"{one.cell['workload']} {setting(one)}",
            word(one.response),
            significant(one.published, 3),
            significant(one.ratio, 3),
            ratio_interval(one),
            ", ".join(one.on.values()),
        )
        rows.append(Row(cells, note=source))
    return PUBLISHED.table(verdict.workloads(one.cell for one in found), rows)


def setting(one: Published) -> str:
    """Returns the platform and the levels of a published figure, without workload and processor."""
    return verdict.setting(one.platform, one.cell, ("workload", PROCESSOR))
