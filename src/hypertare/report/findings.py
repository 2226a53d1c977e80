"""The tables of what was found of settings, in their order: the same in terminal, page and Markdown."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from hypertare.report import (
    curves,
    foretold,
    line_share,
    published,
    searches,
    together,
    together_cpu,
    totals,
)
from hypertare.report.model import Report


def findings(report: Report) -> Iterator[tuple[Any, Sequence[Any]]]:
    """Each with the module that says it; what is empty is left out."""
    summary = report.summary
    groups = together.groups(summary)
    every: tuple[tuple[Any, Sequence[Any]], ...] = (
        (together, groups),
        (together_cpu, groups),
        (line_share, line_share.lines(summary)),
        (foretold, summary.predictability),
        (totals, totals.lines(summary, report.wording)),
        (published, summary.published),
        (curves, summary.curves),
        (searches, summary.loss_free),
    )
    return ((words, found) for words, found in every if found)
