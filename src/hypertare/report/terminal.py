"""The report in a terminal: the answer first, then a row for each comparison; details on request."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, groupby

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.padding import Padding
from rich.table import Table as Grid
from rich.text import Text

from hypertare.base import figures
from hypertare.base.figures import word
from hypertare.base.units import human_size
from hypertare.findings.doubt import warning
from hypertare.report import caveats, forest, verdict
from hypertare.report.forest import Forest, Row, bars
from hypertare.report.model import Failure, Report
from hypertare.report.tables import effects, grid
from hypertare.report.tables.found import is_left_out, tables
from hypertare.report.tables.table import Table
from hypertare.report.terminal_tables import Fitting, below, columns, plain
from hypertare.report.verdict import MARKS, Sentence, Tone
from hypertare.runs.summary import Estimate
from hypertare.workloads.responses import MODELLED, meaning

_LEAST_NAME, _LEAST_BAR, _MOST_BAR = 20, 5, 30
_INDENT = 2


@dataclass(frozen=True)
class Forests:
    """Several forest plots below each other, with common columns."""

    forests: Sequence[Forest]
    styles: Mapping[Tone, str]

    def __rich_console__(self, _: Console, options: ConsoleOptions) -> RenderResult:
        rows = [row for plot in self.forests for row in plot.rows]
        mean = "mean" if any(row.value for row in rows) else ""
        head = ("", mean, "change", self.forests[0].interval)
        widths = [
            max(cell_len(part) for part in column)
            for column in zip(head, *map(_cells, rows), strict=True)
        ]
        taken = sum(width + 2 for width in widths[1:] if width)
        room = options.max_width - _INDENT - taken
        if room < min(widths[0], _LEAST_NAME):
            yield from self._paragraphs(head)
            return
        # A bar is left out before a name is broken.
        name = min(widths[0], room)
        bar = min(room - name - 2, _MOST_BAR)
        if bar < _LEAST_BAR:
            bar = 0
        places = [name, *widths[1:], bar]
        yield _forest_line(("", *head[1:], ""), places, "")
        for plot in self.forests:
            yield Text(plain(plot.title), style="italic")
            drawn = bars(plot, bar) if bar else [""] * len(plot.rows)
            for row, line in zip(plot.rows, drawn, strict=True):
                yield _forest_line((*_cells(row), line), places, self.styles[row.tone])

    def _paragraphs(self, head: Sequence[str]) -> RenderResult:
        for plot in self.forests:
            yield Text(plain(plot.title), style="italic")
            for row in plot.rows:
                name, *cells = _cells(row)
                # Words in the place of an interval need no heading.
                headed = head if row.bar else (*head[:-1], "")
                yield from below(headed, [f"  {name}", *cells], self.styles[row.tone])


def _cells(row: Row) -> tuple[str, ...]:
    """The mark says without its colour what the row's verdict is."""
    change = f"{MARKS[row.tone]} {row.change}" if row.change else ""
    return (plain(row.name), plain(row.value), plain(change), plain(row.interval))


def _forest_line(cells: Sequence[str], widths: Sequence[int], style: str) -> Grid:
    grid = Grid.grid(padding=(0, 2, 0, 0), expand=False)
    shown = [place for place, width in enumerate(widths) if width]
    last = len(widths) - 1
    for place in shown:
        name = place == 0
        grid.add_column(
            width=widths[place] + (_INDENT if name else 0),
            overflow="fold",
            justify="left" if place in (0, last) else "right",
            no_wrap=not name,
        )
    texts = [f"{' ' * _INDENT}{cells[0]}" if cells[0] else "", *cells[1:]]
    grid.add_row(*(Text(texts[place], style if place > 1 else "") for place in shown))
    return grid


_PLAIN = str.maketrans(
    {
        "▲": "^",
        "▼": "v",
        "◆": "*",
        "✗": "x",
        "×": "x",
        "−": "-",
        "–": "-",
        "±": "+-",
        "µ": "u",
        "→": "->",
        "│": "|",
        "┿": "+",
        "━": "-",
        "●": "o",
    }
)
"""ASCII replacements of letters. In columns each is as wide as the letter that it replaces."""


def put(console: Console, shown: RenderableType) -> None:
    """Prints it, in letters that the encoding of the output has."""
    if console.encoding.startswith("utf"):
        console.print(shown)
        return
    with console.capture() as captured:
        console.print(shown)
    text = captured.get().translate(_PLAIN)
    console.file.write(text.encode(console.encoding, "replace").decode(console.encoding))


_STYLES: dict[Tone, str] = {
    "costs": "red",
    "gains": "green",
    "mixed": "",
    "same": "",
    "failed": "bold red",
    "unknown": "yellow",
}
_JUDGEMENTS = {"holds": "green", "fails": "red", "undecided": "yellow", "not judged": "dim"}
_MOST_FAILURES = 5
_MOST_WARNINGS = 2
_MOST_OF_GRID = 24
"""Rows."""
_MOST_CLAIMS = 8
"""Claims that are all shown with their evidence; of more, those that hold are without."""
_PROMPT = 3
"""Lines of a screen that what follows the report takes."""


def show(report: Report, console: Console | None = None, *, every: bool = False) -> None:
    """Prints the report. Colours follow the terminal and `NO_COLOR`."""
    console = console or Console(highlight=False)
    shown: list[RenderableType] = [render(report, every=every)]
    if console.is_terminal and len(console.render_lines(shown[0])) > console.height - _PROMPT:
        # What stood first has left the screen; where claims ask, theirs is the answer.
        again = report.answers[:1] if report.summary.claims else report.answers
        shown += [Text(), *map(_sentence, again)]
    put(console, Group(*shown))


def render(report: Report, *, every: bool = False) -> RenderableType:
    """Text from guests and commands goes in as `Text`: it is never read as markup.

    Args:
        report: what to show.
        every: all verdicts as sentences and all estimates, too. Else, so that it stays on one screen, a row
            for each comparison, or of many comparisons a table over the factors.
    """
    parts: list[RenderableType] = [_head(report, every), *map(_sentence, report.answers)]
    parts += _claims(report, every)
    parts += _forests(report)
    parts += map(_sentence, (*report.verdicts, *report.remarks) if every else report.remarks)
    if every:
        parts += chain.from_iterable(map(_found, grid.tables(report)))
        parts += _tables(report, report.estimates())
    else:
        # Which factor matters is one table, over which cells it is known are many; unless the study's own
        # questions are others: its claims are answered above.
        is_asked = not report.summary.claims or bool(report.meta.settings.get("effects"))
        if report.summary.effects and is_asked:
            parts += _found(effects.brief(report.summary.effects, report.wording))
        parts += chain.from_iterable(map(_short, grid.tables(report)))
    for table in tables(report):
        # Rows show the largest changes of levels; of many levels there are pages of others.
        if every or (table.id != effects.ID and not is_left_out(table, report)):
            parts += _found(table)
    parts += _failures(report)
    parts += _warnings(report, every)
    if not every:
        parts += _rest(report)
    return Group(*parts)


def _short(table: Table) -> Iterator[RenderableType]:
    """Yields a grid, or one line that names where to see it if it has more rows than a screen."""
    if len(table.rows) <= _MOST_OF_GRID:
        yield from _found(table)
        return
    where = f"{len(table.rows)} rows: --all, --html FILE or --format markdown"
    yield from (Text(), Text(f"{_title(table)}: {where}", style="dim"))


def _head(report: Report, every: bool) -> RenderableType:
    summary = report.summary
    text = Text(summary.study, style="bold")
    text.append(f"  {plain(summary.question)}", style="not bold")
    if not summary.complete:
        text.append(f"  (ended early: {report.ended_by})", style="dim")
    machine = summary.machine
    where = (
        f"{machine.kind} machine {machine.hostname}, {machine.cpus} x {machine.cpu}, "
        f"{human_size(machine.memory)}, Linux {machine.kernel}, {summary.clock} clock"
    )
    said = meaning(summary.clock, machine.walks) if every else ""
    lines = [Text(plain(where), style="dim"), *([Text(said, style="dim italic")] if said else [])]
    return Group(text, *lines, Text())


def _forests(report: Report) -> Iterator[RenderableType]:
    for forests in (forest.of_levels(report), forest.of_platforms(report)):
        if forests:
            yield Text()
            yield Forests(forests, _STYLES)
    if report.remarks and (report.answers or report.summary.claims):
        yield Text()


def _sentence(sentence: Sentence) -> RenderableType:
    line = _marked(verdict.MARKS[sentence.tone], sentence.text, _STYLES[sentence.tone])
    # What a program printed keeps its indentation.
    indented = [(len(one) - len(one.lstrip()), plain(one.strip())) for one in sentence.lines]
    said = [Padding(Text(" " * by + one, style="dim"), (0, 0, 0, 4)) for by, one in indented]
    return Group(line, *said)


def _marked(mark: str, text: str, style: str) -> RenderableType:
    line = Grid.grid(padding=(0, 1))
    line.add_row(Text(mark, style=style), Text(plain(text), style=style))
    return line


def _tables(report: Report, estimates: Sequence[Estimate]) -> Iterator[RenderableType]:
    """One table for each response, their columns below each other throughout."""
    if not estimates:
        return
    confidence = verdict.confidence_text(estimates[0].confidence)
    around = verdict.heading(estimates, estimates[0].confidence)
    header = ("", "n", "mean", confidence, "change", around)
    rows = {id(estimate): _row(report, estimate) for estimate in estimates}
    line = columns([header, *rows.values()])
    for label in report.cells:
        of_cell = [one for one in estimates if report.wording.label(one.cell) == label]
        for place, (_, group) in enumerate(groupby(of_cell, key=lambda e: e.response)):
            if place == 0:
                yield Text()
                yield Text(plain(label), style="bold")
                if printed := report.printed.get(label):
                    yield Text(plain(f"printed last, natively: {printed}"), style="dim")
                yield line(header, "")
            chosen = list(group)
            yield Text(_response(report, chosen[0]), style="italic")
            for estimate in chosen:
                yield line(rows[id(estimate)], _STYLES[verdict.tone(estimate)])


def _response(report: Report, one: Estimate) -> str:
    unit = f"{one.unit}, " if figures.counted(one.unit) else ""
    known = report.responses(str(one.cell.get("workload"))).get(one.response)
    title, name = plain(known.title if known else one.response), word(one.response)
    named = title if title.startswith(name) else f"{name}: {title}"
    return f"{named} ({unit}{one.better} is better)"


def _row(report: Report, estimate: Estimate) -> tuple[str, ...]:
    platform = report.wording.platform(estimate.platform, estimate.cell)
    unit = "" if figures.counted(estimate.unit) else estimate.unit
    value, interval = verdict.mean_text(estimate, unit)
    change, around = verdict.cost_text(estimate, report.wording) if estimate.baseline else ("", "")
    return (f"  {plain(platform)}", str(estimate.n), value, interval, change, around)


def _found(table: Table) -> Iterator[RenderableType]:
    yield Text()
    yield Text(_title(table), style="bold")
    yield Padding(Fitting(table), (0, 0, 0, 2), expand=False)
    # Notes stand below, where they have room.
    for note in table.noted():
        yield Padding(Text(plain(note), style="dim"), (0, 0, 0, 2), expand=False)


def _title(table: Table) -> str:
    """Returns a table's title with a small first letter, unless it begins with an abbreviation."""
    title = table.title
    return plain(title if title[:2].isupper() else title[0].lower() + title[1:])


def _claims(report: Report, every: bool) -> Iterator[RenderableType]:
    """Yields a sentence for each claim; of many, those that hold are without their evidence."""
    if report.summary.claims:
        yield Text()
    short = len(report.summary.claims) > _MOST_CLAIMS and not every
    named = f"({report.meta.confidence * 100:g} % interval "
    known = False
    for claim in report.summary.claims:
        text = Text(f"{claim.judgement}: ", style=_JUDGEMENTS[claim.judgement])
        if short and claim.judgement == "holds":
            text.append(plain(claim.text), style="default")
            yield Padding(text, (0, 0, 0, 2), expand=False)
            continue
        # What a bracket holds is said once, and not in each of dozens.
        evidence = claim.evidence.replace(named, "(") if known else claim.evidence
        known = known or named in evidence
        text.append(plain(f"{claim.text}: {evidence}"), style="default")
        yield Padding(text, (0, 0, 0, 2), expand=False)


def _failures(report: Report) -> list[RenderableType]:
    """Returns the number of failures, and the reasons and console lines that no sentence has."""
    if not report.failures:
        return []
    count = len(report.failures)
    title = f"{count} of {len(report.trials)} trials failed; they are in no estimate"
    lines: list[RenderableType] = [Text(), Text(title, style="bold red")]
    alike: dict[tuple[str, str, str], list[Failure]] = {}
    for one in report.failures:
        alike.setdefault((one.platform, one.cell, one.reason), []).append(one)
    said = {key for key in alike if caveats.is_said(key[-1], report.remarks)}
    groups = [(key, group) for key, group in alike.items() if group[-1].console or key not in said]
    for key, group in groups[:_MOST_FAILURES]:
        platform, cell, reason = key
        numbers = ", ".join(str(failure.trial) for failure in group)
        text = f"trial{'s' if len(group) > 1 else ''} {numbers}: {platform}, {cell}"
        if key not in said:
            text += f": {reason}"
        lines.append(Padding(Text(plain(text)), (0, 0, 0, 2), expand=False))
        last = [plain(line) for line in group[-1].console[-2:]]
        lines += [Padding(Text(line, style="dim"), (0, 0, 0, 4), expand=False) for line in last]
    more = sum(len(group) for _, group in groups[_MOST_FAILURES:])
    if more:
        lines.append(Padding(Text(f"and {more} more"), (0, 0, 0, 2), expand=False))
    return lines


def _warnings(report: Report, every: bool) -> list[RenderableType]:
    """Returns the warnings: all in full with `every`, else the first sentence of a few."""
    if not report.warnings:
        return []
    if every:
        lines: list[RenderableType] = [Text(), Text("warnings", style="bold yellow")]
        texts = (Text(plain(warning)) for warning in report.warnings)
        return lines + [Padding(text, (0, 0, 0, 2), expand=False) for text in texts]
    firsts = (
        re.split(r"(?<=\.) (?=[A-Z])", text, maxsplit=1)[0]
        for text in _unsaid(report)[:_MOST_WARNINGS]
    )
    return [_marked("!", first, "yellow") for first in firsts]


def _unsaid(report: Report) -> list[str]:
    """Returns the warnings except those about busy programs, which a sentence gives already."""
    disturbances = {warning(one) for one in report.summary.disturbances}
    return [text for text in report.warnings if text not in disturbances]


def _rest(report: Report) -> Iterator[RenderableType]:
    """How much more there is."""
    # Of the reasons that there are for exits, most are never met.
    names = {
        one.response
        for one in report.estimates()
        if one.estimate or not one.response.startswith("exits_")
    }
    names -= {*report.meta.headline.values(), *(response.name for response in MODELLED)}
    warnings = len(_unsaid(report)) - _MOST_WARNINGS
    more = [
        f"{count} more {noun}{'s' if count != 1 else ''}"
        for count, noun in ((len(names), "response"), (warnings, "warning"))
        if count > 0
    ]
    if len(report.summary.claims) > _MOST_CLAIMS:
        more.append("the evidence of claims that hold")
    if more:
        yield Text(f"  {', '.join(more)}: hypertare report RUN --all", style="dim")
