"""A report as Markdown, for a document or a merge request."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from hypertare.base.figures import word
from hypertare.base.units import human_duration
from hypertare.base.variables import VIRTUAL
from hypertare.report import charts, forest, plots, verdict
from hypertare.report.forest import Forest
from hypertare.report.model import Report
from hypertare.report.tables import grid
from hypertare.report.tables.found import is_left_out, tables
from hypertare.report.tables.table import Column, Table, text
from hypertare.report.vega import Chart, Spec
from hypertare.runs.summary import Estimate
from hypertare.workloads.responses import meaning

_BAR = 24
_WORDS_OF_EVIDENCE = (None, 60, 48, 40, 32, 28, 24, 20, 16, 12, 8)
"""Limits of words for the evidence of each claim in a short document, tried in turn until the document
fits.

None is no limit. With any limit the evidence lacks the wanted bounds, which the claims' texts give, and the
clock, which the page gives.
"""
CLAIMS_OF = "Claims are those of commit"
"""How a warning begins that a run's claims are younger than its trials. It is a part of how it was made, so
no document lacks it for want of room.
"""
_WANTED = re.compile(r", wanted (?:above|below|within) [^,]+?(?=, |$)")
_SPACE = "\u00a0"
"""Readers of Markdown would make one space of several."""


def render(report: Report, *, every: bool = False) -> str:
    """The whole report.

    Args:
        report: what to show.
        every: of many cells also each response, the points of plots and all changes of levels, for which
            there are tables over the factors else.
    """
    lines = [*_head(report), *_claims(report)]
    for one in (*forest.of_levels(report), *forest.of_platforms(report)):
        lines += _forest(one)
    lines += _remarks(report)
    over_factors = tuple(grid.tables(report))
    for table in over_factors:
        lines += _found(table)
    every = every or not over_factors or not report.has_many_cells
    if every:
        lines += _cells(report)
        for plot in plots.drawn(report):
            lines += ["", f"## {_text(plot.title)}", "", _text(plot.note), ""]
            lines += _grid(tuple(map(text, plot.head)), plot.rows)
    for table in tables(report):
        if every or not is_left_out(table, report):
            lines += _found(table)
    lines += [*_warnings(report), *_how(report)]
    return "\n".join(lines) + "\n"


@dataclass(frozen=True)
class Document:
    """Markdown, and the charts that it shows, by the name of their pictures' files."""

    text: str
    charts: dict[str, Spec]


def brief(report: Report, folder: str, whole: str, most_words: int = 1500) -> Document:
    """What a reader compares: the answer, the claims, what others published, the study's plots, and as many
    of the tables as there is room for.

    Args:
        report: what to show.
        folder: where the pictures are, as seen from the document.
        whole: its last sentence, on where all else stands.
        most_words: of the document; claims and how it was made are there in any case.
    """
    drawn = dict(_pictures(report))
    figures: list[str] = []
    for name, one in drawn.items():
        title = _text(one.title)
        figures += [f"![{title}]({folder}/{name})", "", f"*{title}. {_text(one.note)}*", ""]
    end = [*_how(report), "", whole]
    for evidence in _WORDS_OF_EVIDENCE:
        start = [*_head(report), *_claims(report, evidence), *figures]
        room = most_words - _words(start) - _words(end)
        if room >= 0:
            break
    for part in _parts(report):
        if (words := _words(part)) <= room:
            room -= words
            start += part
    specs = {name: one.specification for name, one in drawn.items()}
    return Document("\n".join([*start, *end]) + "\n", specs)


def _pictures(report: Report) -> Iterator[tuple[str, Chart]]:
    """Each with the name of its file."""
    if theirs := charts.published(report.summary.published, report):
        yield "published.svg", theirs
    for number, one in enumerate(plots.drawn(report), 1):
        yield f"figure-{number}.svg", one


def _parts(report: Report) -> Iterator[list[str]]:
    """What goes into a short document if it has room for it, the most important first."""
    for one in (*forest.of_levels(report), *forest.of_platforms(report)):
        yield list(_forest(one))
    yield list(_remarks(report))
    for table in (*grid.tables(report), *tables(report)):
        if not is_left_out(table, report):
            yield list(_found(table))
    yield list(_warnings(report))
    yield list(_cells(report))


def _words(lines: Iterable[str]) -> int:
    return sum(len(line.split()) for line in lines)


def _head(report: Report) -> Iterator[str]:
    summary = report.summary
    yield f"# {_text(summary.study)}"
    yield ""
    yield _text(summary.question)
    yield ""
    if said := meaning(summary.clock, summary.machine.walks):
        yield _text(said)
        yield ""
    for sentence in report.answers:
        yield f"**{verdict.MARKS[sentence.tone]} {_text(sentence.text)}**"
        yield ""


def _remarks(report: Report) -> Iterator[str]:
    for sentence in report.remarks:
        yield f"- {verdict.MARKS[sentence.tone]} {_text(sentence.text)}"


def _warnings(report: Report) -> Iterator[str]:
    shown = [warning for warning in report.warnings if not warning.startswith(CLAIMS_OF)]
    if shown:
        yield from ("", "## Warnings", "")
        yield from (f"- {_text(warning)}" for warning in shown)


def _claims(report: Report, most_words: int | None = None) -> Iterator[str]:
    """Yields the table of claims. `most_words` limits the evidence of each claim.

    The head names the kind of interval, so the evidence does not.
    """
    if not report.summary.claims:
        return
    yield from ("## Claims", "")
    interval = f"{report.meta.confidence * 100:g} % interval"
    claims = (
        (one.text, one.judgement, _cut(one.evidence.replace(f"({interval} ", "("), most_words))
        for one in report.summary.claims
    )
    evidence = text(f"evidence, with its {interval}")
    yield from _grid((text("claim"), text("judgement"), evidence), claims)
    yield ""


def _cut(text: str, most_words: int | None) -> str:
    if most_words is None:
        return text
    words = _WANTED.sub("", text.replace(VIRTUAL, "")).split()
    return " ".join(words if len(words) <= most_words else [*words[:most_words], "…"])


def _cells(report: Report) -> Iterator[str]:
    confidence = report.meta.confidence
    interval = Column(verdict.confidence_text(confidence))
    around = Column(verdict.heading(report.summary.estimates, confidence))
    named = (text("response"), text("platform"))
    compared = (Column("change"), around, Column("difference"), around)
    columns = (*named, Column("n"), Column("mean"), interval, *compared)
    for label in report.cells:
        if estimates := report.estimates(label):
            yield from ("", f"## {_text(label)}", "")
            yield from _grid(columns, (_row(report, one) for one in estimates))


def _how(report: Report) -> Iterator[str]:
    """Yields how the figures were made: date, seed, machine, versions and command."""
    summary, machine = report.summary, report.summary.machine
    lasted = (summary.ended - summary.started).total_seconds() if summary.ended else None
    took = f", in {human_duration(lasted)}" if lasted is not None else ""
    made = [
        f"{summary.started:%d %B %Y}, seed {summary.seed}, {len(report.trials)} trials, "
        f"{len(report.failures)} of them failed{took}",
        f"{machine.kind} machine, {machine.cpus} x {machine.cpu}, Linux {machine.kernel}, "
        f"{summary.clock} clock, accelerator {summary.accelerator or 'none'}",
        ", ".join(f"{name} {version}" for name, version in summary.versions.items()),
        *(report.commands[:1] if report.meta.argv else ()),
        *(warning for warning in report.warnings if warning.startswith(CLAIMS_OF)),
    ]
    yield from ("", "## How", "", *(f"- {_text(line)}" for line in made))


def _found(table: Table) -> Iterator[str]:
    yield from ("", f"## {_text(table.title)}", "", _text(table.note), "")
    yield from _grid(table.wide.columns, (row.cells for row in table.wide.rows))


def _forest(one: Forest) -> Iterator[str]:
    """Comparisons with their bars, in a font whose letters are of one width."""
    heads = (Column("mean"), Column("change"), Column(one.interval))
    columns = (text(one.title), *heads, text("│ = 0"))
    rows = zip(one.rows, forest.bars(one, _BAR), strict=True)
    yield f"| {' | '.join(map(_text, (c.name for c in columns)))} |"
    yield f"|{'|'.join('---' if column.is_text else '---:' for column in columns)}|"
    for row, bar in rows:
        drawn = f"`{bar.replace(' ', _SPACE)}`" if bar else ""
        cells = map(_text, (row.name, row.value, row.change, row.interval))
        yield f"| {' | '.join(cells)} | {drawn} |"
    yield ""


def _row(report: Report, estimate: Estimate) -> tuple[str, ...]:
    mean, interval = verdict.mean_text(estimate, estimate.unit)
    baseline = estimate.platform == report.meta.baseline
    change, around = ("", "") if baseline else verdict.cost_text(estimate, report.wording)
    if verdict.is_taken_back(estimate):
        change, around = "no verdict", estimate.doubt or ""
    platform = report.wording.platform(estimate.platform, estimate.cell)
    named = (word(estimate.response), platform)
    added = verdict.added_text(estimate)
    return (*named, str(estimate.n), mean, interval, change, around, *added)


def _grid(columns: Sequence[Column], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(column.name for column in columns)} |"
    yield f"|{'|'.join('---' if column.is_text else '---:' for column in columns)}|"
    for cells in rows:
        yield f"| {' | '.join(map(_text, cells))} |"


def _text(text: str) -> str:
    """Text that Markdown takes for nothing else: what a guest says draws no table and no image."""
    for character in "\\`*_[]<>|":
        text = text.replace(character, f"\\{character}")
    return " ".join(text.split())
