"""A tuning as a page (`hypertare.report.page`)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from hypertare.base.words import level_text, percent, word
from hypertare.findings.tuning import Tuning
from hypertare.report import page, tuning, tuning_charts
from hypertare.report.tables import tuning as tables
from hypertare.report.tables.table import Table
from hypertare.report.vega import Chart
from hypertare.workloads.responses import meaning


@dataclass(frozen=True)
class PageSection:
    """A part of the page: a table with its charts."""

    table: Table
    charts: tuple[Chart, ...]


def render(found: Tuning) -> str:
    """The page."""
    parts = list(_parts(found))
    return page.render(
        "tuning.html.j2",
        [chart for part in parts for chart in part.charts],
        tuning=found,
        parts=parts,
        facts=_facts(found),
        meaning=meaning(found.clock, found.machine.walks),
        knobs=tables.knobs(found),
        where=tuning.WHERE,
        lines=tuning.lines,
        level_text=level_text,
    )


def _facts(found: Tuning) -> list[tuple[str, str]]:
    before = [] if found.known is None else [("earlier run", tuning.known(found.known))]
    return [
        ("platform", f"{found.platform}, {found.workload}"),
        ("goal", found.goal),
        ("trials", f"{found.trials}, budget {found.budget}"),
        *before,
        *page.where(found),
        *page.when(found),
    ]


def _parts(found: Tuning) -> Iterator[PageSection]:
    for response in tables.responses(found):
        table = tables.effects(found, response)
        chart = Chart(
            table.id,
            f"Effects on {word(response)}",
            "Each knob from its default to the level named, over the levels of the others, with its "
            "interval. Grey: no difference shown.",
            tuning_charts.effects(found, response),
            *_figures(table),
        )
        yield PageSection(table, (chart,))
    if found.tried:
        table = tables.tried(found)
        yield PageSection(table, tuple(_search(found, table)))
    if found.confirmation is not None:
        yield PageSection(tables.confirmation(found), (_duels(found),))


def _search(found: Tuning, table: Table) -> Iterator[Chart]:
    if any(one.cpu is not None for one in found.tried):
        yield Chart(
            "front",
            f"{word(found.throughput).capitalize()} and {word(found.cpu or '')}",
            "A point is a setting, the larger the more blocks; up and to the left is better, and nought "
            "is the default. On the front are those that no other beats in both; the knee is the "
            "compromise.",
            tuning_charts.front(found),
            *_figures(table),
        )
    if found.looks:
        rows = tuple(
            (str(number), look.phase, tables.settings(look.setting), percent(look.throughput))
            for number, look in enumerate(found.looks, start=1)
        )
        yield Chart(
            "course",
            "Course",
            "Each trial of screening, search and race in its order, against the default of its block.",
            tuning_charts.course(found),
            ("trial", "phase", "setting", word(found.throughput)),
            rows,
        )


def _duels(found: Tuning) -> Chart:
    confirmed = found.confirmation
    assert confirmed is not None
    return Chart(
        "duels",
        "The winner against the default",
        "Fresh trials, of which none had a part in the choice. Bar: mean and interval; below it what the "
        "search had promised. The fine line is the least gain that matters.",
        tuning_charts.confirmation(found),
        ("block", "gain"),
        tuple((str(n), percent(gain)) for n, gain in enumerate(confirmed.by_block, start=1)),
    )


def _figures(table: Table) -> tuple[tuple[str, ...], tuple[tuple[str, ...], ...]]:
    head = tuple(column.name for column in table.columns)
    return head, tuple(row.cells for row in table.rows)
