"""Published figures of others beside this run's own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hypertare.base.figures import significant
from hypertare.base.words import word
from hypertare.report import verdict
from hypertare.report.tables.table import Column, Row, Table, TableSpec, text
from hypertare.runs.summary import Published
from hypertare.study.walk import PROCESSOR

FORM = TableSpec(
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


def table(found: Sequence[Published]) -> Table:
    return FORM.table(workloads(found), rows(found))


def rows(found: Sequence[Published]) -> Iterator[Row]:
    """Of what this run has too; the source stands once, with the first of its figures."""
    said: set[str] = set()
    for one in found:
        if one.ratio is None:
            continue
        source = "" if one.source in said else one.source
        said.add(one.source)
        yield Row(
            (
                f"{one.cell['workload']} {setting(one)}",
                word(one.response),
                significant(one.published, 3),
                significant(one.ratio, 3),
                _interval(one),
                ", ".join(one.on.values()),
            ),
            note=source,
        )


def workloads(found: Sequence[Published]) -> str:
    return verdict.workloads(one.cell for one in found)


def setting(one: Published) -> str:
    """Returns the platform and the levels of a published figure, without workload and processor."""
    return verdict.setting(one.platform, one.cell, ("workload", PROCESSOR))


def _interval(one: Published) -> str:
    if one.ratio_low is None or one.ratio_high is None:
        return ""
    if one.ratio_low == one.ratio_high:
        return "exact"
    return f"{significant(one.ratio_low, 3)} to {significant(one.ratio_high, 3)}"
