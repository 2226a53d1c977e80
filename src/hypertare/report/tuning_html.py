"""A tuning as a page (`hypertare.report.page`)."""

from __future__ import annotations

from collections.abc import Iterator

from hypertare.base.words import level_text, percent, word
from hypertare.findings.tuning import Tuning
from hypertare.report import page, tuning, tuning_charts
from hypertare.report.tables import tuning as tables
from hypertare.report.tables.table import Table
from hypertare.report.vega import Chart
from hypertare.workloads.responses import meaning


def render(found: Tuning) -> str:
    """The page."""
    parts = list(_parts(found))
    return page.render(
        "tuning.html.j2",
        [chart for _, charts in parts for chart in charts],
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


def _parts(found: Tuning) -> Iterator[tuple[Table, tuple[Chart, ...]]]:
    """Tables with their charts."""
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
        yield table, (chart,)
    if found.tried:
        table = tables.tried(found)
        yield table, tuple(_search(found, table))
    if found.confirmation is not None:
        gains = enumerate(found.confirmation.by_block, start=1)
        duels = Chart(
            "duels",
            "The winner against the default",
            "Fresh trials, of which none had a part in the choice. Bar: mean and interval; below it "
            "what the search had promised. The fine line is the least gain that matters.",
            tuning_charts.confirmation(found),
            ("block", "gain"),
            tuple((str(block), percent(gain)) for block, gain in gains),
        )
        yield tables.confirmation(found), (duels,)


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


def _figures(table: Table) -> tuple[tuple[str, ...], tuple[tuple[str, ...], ...]]:
    head = tuple(column.name for column in table.columns)
    return head, tuple(row.cells for row in table.rows)
