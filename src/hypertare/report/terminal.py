"""The report in a terminal: verdicts first, then a table for each workload."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from hypertare.base.units import human_size
from hypertare.report import units, verdict
from hypertare.report.findings import findings
from hypertare.report.model import Failure, Report
from hypertare.report.searches import Row
from hypertare.report.verdict import Sentence, Tone
from hypertare.runs.summary import Estimate
from hypertare.workloads.responses import MODELLED, meaning

_STYLES: dict[Tone, str] = {
    "costs": "red",
    "gains": "green",
    "same": "",
    "failed": "bold red",
    "unknown": "yellow",
}
_MARKS: dict[Tone, str] = {
    "costs": "▲",
    "gains": "▼",
    "same": "=",
    "failed": "✗",
    "unknown": "?",
}
_JUDGEMENTS = {"holds": "green", "fails": "red", "undecided": "yellow", "not judged": "dim"}
_MOST_FAILURES = 5
_MOST_WARNINGS = 8
_LEAST_NAME = 16
_NOTHING = ("", "–")


def show(report: Report, console: Console | None = None, *, every: bool = False) -> None:
    """Prints the report. Colours follow the terminal and `NO_COLOR`."""
    console = console or Console(highlight=False)
    console.print(render(report, every=every))


def render(report: Report, *, every: bool = False) -> RenderableType:
    """Text from guests and commands goes in as `Text`: it is never read as markup.

    Args:
        report: what to show.
        every: all estimates. Else, so that it stays short, only those that say something, and of
            runs with several cells only the leading response of each.
    """
    shown = [one for one in report.estimates() if every or _telling(one, report)]
    parts: list[RenderableType] = [_head(report), *map(_sentence, report.sentences)]
    parts += _tables(report, shown)
    parts += _left_out(report, shown)
    for words, found in findings(report):
        parts += _found(words, found)
    parts += _claims(report)
    parts += _failures(report)
    parts += _warnings(report)
    return Group(*parts)


def _head(report: Report) -> RenderableType:
    summary = report.summary
    state = "" if summary.complete else " (ended before all intervals were narrow enough)"
    text = Text(f"{summary.study}{state}", style="bold")
    text.append(f"  {plain(summary.question)}", style="not bold")
    machine = summary.machine
    where = (
        f"{machine.kind} machine {machine.hostname}, {machine.cpus} x {machine.cpu}, "
        f"{human_size(machine.memory)}, Linux {machine.kernel}, {summary.clock} clock"
    )
    said = meaning(summary.clock)
    lines = [Text(plain(where), style="dim"), *([Text(said, style="dim italic")] if said else [])]
    return Group(text, *lines, Text())


def _sentence(sentence: Sentence) -> RenderableType:
    line = Table.grid(padding=(0, 1))
    style = _STYLES[sentence.tone]
    line.add_row(Text(_MARKS[sentence.tone], style=style), Text(plain(sentence.text), style=style))
    return line


def _tables(report: Report, estimates: Sequence[Estimate]) -> Iterator[RenderableType]:
    """One table for each response, their columns below each other throughout."""
    if not estimates:
        return
    confidence = f"{estimates[0].confidence * 100:g} % interval"
    header = ("", "n", "mean", confidence, "change", confidence)
    rows = {id(estimate): _row(report, estimate) for estimate in estimates}
    line = columns([header, *rows.values()])
    for label in report.cells():
        of_cell = [one for one in estimates if report.wording.label(one.cell) == label]
        for place, (response, group) in enumerate(groupby(of_cell, key=lambda e: e.response)):
            if place == 0:
                yield Text()
                yield Text(plain(label), style="bold")
                yield line(header, "")
            chosen = list(group)
            yield _response(report, response, chosen[0])
            for estimate in chosen:
                yield line(rows[id(estimate)], _STYLES[verdict.tone(estimate)])


def _telling(estimate: Estimate, report: Report) -> bool:
    """Whether it is of a leading response; in a run of one cell also of any other that was compared
    and is not nought on every platform.
    """
    if estimate.response == report.meta.headline.get(str(estimate.cell.get("workload"))):
        return True
    if len(report.cells()) > 1:
        return False
    alike = [one for one in report.summary.estimates if one.response == estimate.response]
    return any(one.baseline for one in alike) and any(one.estimate for one in alike)


def _left_out(report: Report, shown: Sequence[Estimate]) -> Iterator[RenderableType]:
    # Of the reasons that there are for exits, most are never met.
    met = {
        one.response
        for one in report.estimates()
        if one.estimate or not one.response.startswith("exits_")
    }
    names = met - {one.response for one in shown}
    names -= {response.name for response in MODELLED}
    if names:
        known = dict.fromkeys(one.response for one in report.estimates())
        listed = ", ".join(verdict.word(name) for name in known if name in names)
        yield Text(f"\nalso measured: {listed} (hypertare report RUN --all)", style="dim")


def columns(rows: Sequence[Sequence[str]]) -> Callable[[Sequence[str], str], RenderableType]:
    """Lines whose columns are as wide as the widest of all rows, of which the first is the header. Where
    the figures leave no room for names, a line is a paragraph: no figure is ever cut off.
    """
    head = rows[0]
    widths = [max(map(cell_len, column)) for column in zip(*rows, strict=True)]

    def line(cells: Sequence[str], style: str) -> RenderableType:
        return _Line(head, cells, widths, style)

    return line


@dataclass(frozen=True)
class _Line:
    head: Sequence[str]
    cells: Sequence[str]
    widths: Sequence[int]
    style: str

    def __rich_console__(self, _: Console, options: ConsoleOptions) -> RenderResult:
        first, *rest = self.widths
        left = options.max_width - sum(rest) - 2 * len(rest)
        if left >= min(first, _LEAST_NAME):
            yield self._beside(min(first, left))
        elif self.cells != self.head:
            yield from _below(self.head, self.cells, self.style)

    def _beside(self, first: int) -> Table:
        grid = Table.grid(padding=(0, 2, 0, 0), expand=False)
        grid.add_column(width=first, overflow="fold")
        for width in self.widths[1:]:
            grid.add_column(width=width, justify="right", no_wrap=True)
        coloured = len(self.cells) - 2
        grid.add_row(
            *(
                Text(cell, self.style if place >= coloured else "")
                for place, cell in enumerate(self.cells)
            )
        )
        return grid


def _below(head: Sequence[str], cells: Sequence[str], style: str) -> Iterator[RenderableType]:
    """A row whose values stand below its name, each with its column's."""
    name, *values = cells
    indent = len(name) - len(name.lstrip())
    told = zip(head[1:], values, strict=True)
    listed = ", ".join(f"{column} {value}" for column, value in told if value not in _NOTHING)
    yield Padding(Text(name.strip(), style=style), (0, 0, 0, indent), expand=False)
    yield Padding(Text(listed, style=style), (0, 0, 0, indent + 2), expand=False)


def _response(report: Report, response: str, estimate: Estimate) -> Text:
    unit = f"{estimate.unit}, " if units.counted(estimate.unit) else ""
    title = plain(report.wording.title(estimate.cell, response))
    name = verdict.word(response)
    named = title if title.startswith(name) else f"{name}: {title}"
    return Text(f"{named} ({unit}{estimate.better} is better)", style="italic")


def _row(report: Report, estimate: Estimate) -> tuple[str, ...]:
    platform = report.wording.platform(estimate.platform, estimate.cell)
    unit = "" if units.counted(estimate.unit) else estimate.unit
    value, interval = verdict.mean_text(estimate, unit)
    change, around = verdict.cost_text(estimate) if estimate.baseline else ("", "")
    return (f"  {plain(platform)}", str(estimate.n), value, interval, change, around)


def _found(words: Any, found: Sequence[Any]) -> Iterator[RenderableType]:
    """A table of what was found of settings; `words` is the module that says it."""
    yield Text()
    yield Text(plain(f"{words.TITLE.lower()} of {words.workloads(found)}"), style="bold")
    rows = list(words.rows(found))
    yield Padding(_Fitting(words.HEAD[:-1], rows, words.TEXTS), (0, 0, 0, 2), expand=False)
    # Notes stand below, where they have room.
    for note in filter(None, (row.note for row in rows)):
        yield Padding(Text(plain(note), style="dim"), (0, 0, 0, 2), expand=False)


class _Fitting:
    """A table where there is room for it, else a paragraph for each row: no figure is ever cut off."""

    def __init__(self, head: Sequence[str], rows: Sequence[Row], texts: Sequence[int]) -> None:
        self.head, self.rows, self.texts = head, rows, texts

    def __rich_console__(self, _: Console, options: ConsoleOptions) -> RenderResult:
        if self._least() <= options.max_width:
            yield self._table()
            return
        for row in self.rows:
            cells = [plain(cell) for cell in row.cells[:-1]]
            yield from _below(self.head, cells, "" if row.sure else "yellow")

    def _table(self) -> Table:
        table = Table(box=None, pad_edge=False, header_style="italic", padding=(0, 2, 0, 0))
        for place, name in enumerate(self.head):
            left = place in self.texts
            least = _LEAST_NAME if place == 0 else None
            side: Any = "left" if left else "right"
            table.add_column(name, justify=side, no_wrap=not left, min_width=least)
        for row in self.rows:
            table.add_row(*map(plain, row.cells[:-1]), style="" if row.sure else "yellow")
        return table

    def _least(self) -> int:
        """Cells of text may be folded between words, figures may not."""
        columns = zip(self.head, *(row.cells[:-1] for row in self.rows), strict=True)
        widths = [
            max(
                cell_len(part)
                for cell in cells
                for part in (cell.split() if place in self.texts else [cell])
            )
            for place, cells in enumerate(columns)
        ]
        return max(widths[0], _LEAST_NAME) + sum(widths[1:]) + 2 * (len(widths) - 1)


def _claims(report: Report) -> list[RenderableType]:
    if not report.summary.claims:
        return []
    lines: list[RenderableType] = [Text(), Text("claims", style="bold")]
    for claim in report.summary.claims:
        text = Text(f"{claim.judgement}: ", style=_JUDGEMENTS[claim.judgement])
        text.append(plain(f"{claim.text} ({claim.evidence})"), style="default")
        lines.append(Padding(text, (0, 0, 0, 2), expand=False))
    return lines


def _failures(report: Report) -> list[RenderableType]:
    if not report.failures:
        return []
    count = len(report.failures)
    title = f"{count} of {len(report.trials)} trials failed; they are in no estimate"
    lines: list[RenderableType] = [Text(), Text(title, style="bold red")]
    groups = _alike(report.failures)
    for group in groups[:_MOST_FAILURES]:
        text = _failed(group, report)
        lines.append(Padding(Text(plain(text)), (0, 0, 0, 2), expand=False))
        last = [plain(line) for line in group[-1].console[-2:]]
        lines += [Padding(Text(line, style="dim"), (0, 0, 0, 4), expand=False) for line in last]
    more = sum(map(len, groups[_MOST_FAILURES:]))
    if more:
        lines.append(Padding(Text(f"and {more} more"), (0, 0, 0, 2), expand=False))
    return lines


def _alike(failures: Iterable[Failure]) -> list[list[Failure]]:
    """Those of one platform in one cell with one reason together, in the order of the first."""
    groups: dict[tuple[str, str, str], list[Failure]] = {}
    for failure in failures:
        groups.setdefault((failure.platform, failure.cell, failure.reason), []).append(failure)
    return list(groups.values())


def _failed(group: Sequence[Failure], report: Report) -> str:
    """Which trials, and why, unless a verdict has said that already."""
    one = group[0]
    numbers = ", ".join(str(failure.trial) for failure in group)
    named = f"trial{'s' if len(group) > 1 else ''} {numbers}: {one.platform}, {one.cell}"
    told = any(one.reason in sentence.text for sentence in report.sentences)
    return named if told else f"{named}: {one.reason}"


def _warnings(report: Report) -> list[RenderableType]:
    if not report.warnings:
        return []
    lines: list[RenderableType] = [Text(), Text("warnings", style="bold yellow")]
    for warning in report.warnings[:_MOST_WARNINGS]:
        lines.append(Padding(Text(plain(warning)), (0, 0, 0, 2), expand=False))
    if len(report.warnings) > _MOST_WARNINGS:
        more = f"and {len(report.warnings) - _MOST_WARNINGS} more, in report.html"
        lines.append(Padding(Text(more), (0, 0, 0, 2), expand=False))
    return lines


def plain(text: str) -> str:
    """Without control characters: a guest's line must not move the reader's cursor."""
    return "".join(c if c.isprintable() else "\ufffd" for c in " ".join(text.splitlines()))
