"""The report in a terminal: verdicts first, then a table for each workload."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table as Grid
from rich.text import Text

from hypertare.base.units import human_size
from hypertare.probes.stat import STAT
from hypertare.report import units, verdict
from hypertare.report.model import Failure, Report
from hypertare.report.tables import effects, levels
from hypertare.report.tables.found import tables
from hypertare.report.tables.table import Table
from hypertare.report.terminal_tables import Fitting, columns, plain
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
_JUDGEMENTS = {"holds": "green", "fails": "red", "undecided": "yellow", "not judged": "dim"}
_MOST_FAILURES = 5
_MOST_LAST = 3
_MOST_WARNINGS = 3


def show(report: Report, console: Console | None = None, *, every: bool = False) -> None:
    """Prints the report. Colours follow the terminal and `NO_COLOR`."""
    console = console or Console(highlight=False)
    shown = render(report, every=every)
    console.print(shown)
    if console.is_terminal and len(console.render_lines(shown)) > console.height:
        # What stood first has left the screen.
        console.print(Group(Text(), *map(_sentence, report.sentences[:_MOST_LAST])))


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
    for table in tables(report):
        # Sentences tell the largest changes of levels; of many levels there are pages of others.
        if table.id == effects.ID and not every:
            parts += _found(effects.brief(report.summary.effects, report.wording))
        elif every or table.id != levels.FORM.id:
            parts += _found(table)
    parts += _claims(report)
    parts += _failures(report)
    parts += _warnings(report, every)
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
    line = Grid.grid(padding=(0, 1))
    style = _STYLES[sentence.tone]
    line.add_row(
        Text(verdict.MARKS[sentence.tone], style=style), Text(plain(sentence.text), style=style)
    )
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
    """Whether it is of a leading response; in a run of one cell also of the whole machine's CPU time,
    which says what the answer costs others, unless it is nought or compared with nothing.
    """
    if estimate.response == report.meta.headline.get(str(estimate.cell.get("workload"))):
        return True
    if len(report.cells()) > 1 or estimate.response != STAT.machine_cpu.name:
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


def _found(table: Table) -> Iterator[RenderableType]:
    yield Text()
    yield Text(plain(table.title[0].lower() + table.title[1:]), style="bold")
    yield Padding(Fitting(table), (0, 0, 0, 2), expand=False)
    # Notes stand below, where they have room.
    for note in table.noted():
        yield Padding(Text(plain(note), style="dim"), (0, 0, 0, 2), expand=False)


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


def _warnings(report: Report, every: bool) -> list[RenderableType]:
    if not report.warnings:
        return []
    lines: list[RenderableType] = [Text(), Text("warnings", style="bold yellow")]
    most = len(report.warnings) if every else _MOST_WARNINGS
    for warning in report.warnings[:most]:
        lines.append(Padding(Text(plain(warning)), (0, 0, 0, 2), expand=False))
    if len(report.warnings) > most:
        more = f"and {len(report.warnings) - _MOST_WARNINGS} more (hypertare report RUN --all)"
        lines.append(Padding(Text(more), (0, 0, 0, 2), expand=False))
    return lines
