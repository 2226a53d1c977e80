"""The report of a run as a page (`hypertare.report.page`), with the words that its readers may not know."""

from __future__ import annotations

import re
from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from hypertare.base import figures
from hypertare.base.errors import InputError
from hypertare.base.figures import level_text, word
from hypertare.base.units import human_size
from hypertare.report import (
    charts,
    every_trial,
    page,
    plots,
    translation,
    verdict,
)
from hypertare.report.answers import JUDGEMENT_TONES
from hypertare.report.distributions import WITHIN, quantile_texts
from hypertare.report.every_trial import EveryTrial
from hypertare.report.model import Failure, Report, SeriesPoint
from hypertare.report.tables import grid
from hypertare.report.tables.conditions import noise_table, platform_table
from hypertare.report.tables.found import tables
from hypertare.report.tables.ratios import TOTALS, bars, lines
from hypertare.report.vega import Chart
from hypertare.runs.summary import Estimate
from hypertare.workloads.responses import mark_of, meaning

TERMS = {
    "block": "trials of all platforms, taken close together, in random order; only these are compared",
    "boot": "one start of a guest, a container or a machine; trials of one boot may resemble each other",
    "cell": "one level of each factor: a workload with its settings",
    "noise floor": "how much the baseline differed from itself; nothing smaller can be seen",
    "machine cpu": "CPU time of the whole machine: the work, the VMM, the host, and whatever else ran",
}


def terms_in(texts: Iterable[str]) -> list[tuple[str, str]]:
    """The words that occur in what a reader has before him, each with its meaning."""
    text = " ".join(texts)
    return [(w, said) for w, said in TERMS.items() if re.search(rf"\b{w}s?\b", text, re.I)]


@dataclass(frozen=True)
class EstimateRow:
    """An estimate as a table shows it."""

    platform: str
    colour: str
    n: int
    mean: str
    interval: str
    change: str
    around: str
    tone: verdict.Tone
    verdict: str


@dataclass(frozen=True)
class Group:
    """A response with its estimates, of one cell."""

    name: str
    title: str
    note: str
    interval: str
    around: str
    rows: tuple[EstimateRow, ...]
    chart: Chart | None


@dataclass(frozen=True)
class Section:
    """All that was found in one cell: its leading response first."""

    id: str
    label: str
    lead: Group | None
    others: tuple[Group, ...]
    charts: tuple[Chart, ...]
    every: EveryTrial | None


def render(report: Report, whole: Mapping[str, str] | None = None) -> str:
    """The page.

    Args:
        whole: levels by factor. Of hundreds of cells those with all of them are shown with every
            response, chart and trial; without, each cell's leading response is.

    Raises:
        InputError: no cell has these levels.
    """
    summary, machine = report.summary, report.summary.machine
    chosen = _whole(report, whole or {})
    sections = list(_sections(report, chosen))
    overview, asked = _overview(report), list(_plots(report))
    drawn = [*asked, *([overview] if overview else [])]
    for section in sections:
        groups = filter(None, (section.lead, *section.others))
        drawn += [group.chart for group in groups if group.chart]
        drawn += section.charts
    # One factor's level, as `--cell` takes it.
    levels = [item for cell in report.cells.values() for item in cell.items()]
    example = f"{levels[-1][0]}={level_text(levels[-1][1])}" if levels else ""
    return page.render(
        "report.html.j2",
        drawn,
        {section.id: section.every.data() for section in sections if section.every},
        report=report,
        summary=summary,
        facts=[
            *page.where(summary),
            ("trials", str(len(report.trials))),
            *page.when(summary),
        ],
        meaning=meaning(summary.clock, summary.machine.walks),
        overview=overview,
        terms=terms_in(_first_read(report, overview)),
        every_term=TERMS,
        sections=sections,
        plots=asked,
        findings=[*grid.tables(report), *tables(report)],
        noise=noise_table(report),
        failures=report.failures,
        failed_share=f"{len(report.failures)} of {len(report.trials)}",
        folded=report.has_many_cells,
        whole=len(chosen),
        example=example,
        marks=verdict.MARKS,
        tones=JUDGEMENT_TONES,
        environment=[
            ("CPU", f"{machine.cpus} x {machine.cpu}"),
            ("memory", human_size(machine.memory)),
            ("kernel", f"Linux {machine.kernel}, {machine.architecture}"),
            ("distribution", machine.distribution),
            *sorted(({"hypertare": summary.hypertare} | summary.versions).items()),
        ],
        platforms=platform_table(summary),
        output=_output,
    )


# --- parts of the page


def _plots(report: Report) -> Iterator[Chart]:
    """What stands above the cells: totals, what the study asks to be drawn, what guests left for."""
    summary = report.summary
    of_native = list(bars(lines(summary, report.wording), summary.published))
    if of_native:
        head = ("workload", "setting", "part", "native is 1 (virtual)")
        shown = ((b.workload, b.name, b.part, figures.significant(b.ratio, 4)) for b in of_native)
        note = f"{TOTALS.note} Crosses: published ratios, each from measurements of one's own."
        yield Chart(
            "totals-plot", "Against native", note, charts.totals(of_native), head, tuple(shown)
        )
    if theirs := charts.published(summary.published, report):
        yield theirs
    yield from plots.drawn(report)
    for kind in (translation.EXITS, translation.FAULTS, translation.MAPPINGS):
        yield from _translations(report, kind)


def _translations(report: Report, kind: str) -> Iterator[Chart]:
    """One chart a workload: their counts differ by far."""
    mine = [one for one in report.translation if one.kind == kind]
    for workload in dict.fromkeys(one.workload for one in mine):
        parts = [one for one in mine if one.workload == workload]
        rows = tuple(
            (p.cell, p.platform, p.part, figures.quantity(p.count, "", digits=5), str(p.trials))
            for p in parts
        )
        unit = translation.UNITS[kind]
        head = ("cell", "platform", kind, f"{unit}{mark_of(report.summary.clock)}", "trials")
        chart = charts.parts(translation.largest(parts), unit, report)
        title = f"{translation.TITLES[kind]}: {workload}"
        yield Chart(f"{kind}-{workload}", title, translation.NOTES[kind], chart, head, rows)


def _overview(report: Report) -> Chart | None:
    leading = [one for one in report.leading if one.cost is not None]
    if not leading:
        return None
    rows = tuple(
        (
            report.wording.label(estimate.cell),
            report.wording.platform(estimate.platform, estimate.cell),
            word(estimate.response),
            *verdict.cost_text(estimate, report.wording),
            estimate.verdict or "–",
        )
        for estimate in leading
    )
    around = verdict.heading(leading, report.meta.confidence)
    head = ("setting", "platform", "response", "change", around, "verdict")
    return Chart(
        "overview",
        "What it costs",
        f"Each cost against {report.meta.baseline} with its interval, from trials paired by block.",
        charts.costs(report, leading),
        head,
        rows,
    )


def _first_read(report: Report, overview: Chart | None) -> Iterator[str]:
    """What the page says before its tables."""
    yield from (one.text for one in (*report.answers, *report.verdicts, *report.remarks))
    yield from (one.evidence for one in report.summary.claims)
    if overview:
        yield from (overview.note, *overview.head)


def _whole(report: Report, asked: Mapping[str, str]) -> frozenset[str]:
    """Labels of the cells of which everything is shown."""
    cells = report.cells
    if not asked:
        return frozenset() if report.has_hundreds_of_cells else frozenset(cells)
    found = frozenset(
        label
        for label, cell in cells.items()
        if all(f in cell and level_text(cell[f]) == level for f, level in asked.items())
    )
    if found:
        return found if report.has_hundreds_of_cells else frozenset(cells)
    known: dict[str, dict[str, None]] = {}
    for cell in cells.values():
        for factor, level in cell.items():
            known.setdefault(factor, {})[level_text(level)] = None
    raise InputError(
        f"No cell of this run has {' and '.join(f'{f} = {level}' for f, level in asked.items())}.",
        "It has: " + "; ".join(f"{f} = {', '.join(levels)}" for f, levels in known.items()) + ".",
    )


def _sections(report: Report, whole: Container[str]) -> Iterator[Section]:
    for number, (label, cell) in enumerate(report.cells.items()):
        key, workload = f"cell{number}", str(cell.get("workload"))
        leading = report.meta.headline.get(workload, "")
        if label not in whole:
            led = _groups(report, key, label, workload, None, (leading,))
            yield Section(key, label, next(led, None), (), (), None)
            continue
        every = every_trial.of_cell(report, label, workload)
        groups = list(_groups(report, key, label, workload, every))
        lead = next((group for group in groups if group.name == word(leading)), None)
        others = tuple(group for group in groups if group is not lead)
        yield Section(key, label, lead, others, tuple(_of_cell(report, key, label)), every)


def _groups(
    report: Report,
    key: str,
    label: str,
    workload: str,
    every: EveryTrial | None,
    only: Collection[str] | None = None,
) -> Iterator[Group]:
    estimates = report.estimates(label)
    columns = {column.response.name: column for column in every.columns} if every else {}
    for number, response in enumerate(report.responses(workload).values()):
        if only is not None and response.name not in only:
            continue
        chosen = [estimate for estimate in estimates if estimate.response == response.name]
        if not report.points_of(label, response.name):
            continue
        chart = None
        if every and (column := columns.get(response.name)):
            chart = Chart(
                f"{key}r{number}",
                f"Every trial: {column.name}",
                "A point is a trial, from the first block at the top of its band to the last; hollow ones "
                "are warm-ups and count for nothing. Bar: mean and interval.",
                charts.trials(key, every, column, chosen, report),
                table=f"{key}-trials",
            )
        yield Group(
            word(response.name),
            response.title,
            f"{response.better} is better",
            verdict.confidence_text(report.meta.confidence),
            verdict.heading(chosen, report.meta.confidence),
            tuple(_row(report, estimate) for estimate in chosen),
            chart,
        )


def _row(report: Report, estimate: Estimate) -> EstimateRow:
    platform = report.wording.platform(estimate.platform, estimate.cell)
    mean, interval = verdict.mean_text(estimate, estimate.unit)
    baseline = estimate.platform == report.meta.baseline
    change, around = ("", "") if baseline else verdict.cost_text(estimate, report.wording)
    return EstimateRow(
        platform,
        report.colours[platform],
        estimate.n,
        mean,
        interval,
        change,
        around,
        "same" if baseline else verdict.tone(estimate),
        "baseline" if baseline else estimate.verdict or "no verdict",
    )


def _of_cell(report: Report, key: str, label: str) -> Iterator[Chart]:
    """The charts of a cell that are of no single response."""
    ecdf = [point for point in report.ecdf if point.cell == label]
    if ecdf:
        yield Chart(
            f"{key}e",
            "Distribution of round-trip times",
            "All round trips of all counted trials. They are not independent: the intervals above "
            "come from trials.",
            charts.ecdf(ecdf, report),
            ("platform", *WITHIN),
            tuple(
                (platform, *quantile_texts(points, f"s{mark_of(report.summary.clock)}"))
                for platform in report.platforms
                if (points := [point for point in ecdf if point.platform == platform])
            ),
        )
    polls = [one for one in report.polls if one.cell == label]
    if polls:
        yield Chart(
            f"{key}p",
            "Packets per poll",
            "Polls of the network card by the packets that they found, over all counted trials.",
            charts.polls(polls, report),
            ("platform", "packets", "polls", "share"),
            tuple(
                (one.platform, str(one.packets), str(one.count), f"{100 * one.share:.2g} %")
                for one in polls
            ),
        )
    series = [point for point in report.series if point.cell == label]
    if series:
        yield Chart(
            f"{key}s",
            "Within the trials",
            "One line a trial and task. Intervals within a trial are no replicates.",
            charts.series(series, report),
            ("trial", "platform", "task", "least", "greatest"),
            tuple(_ranges(report, series)),
        )
    cpu = [time for time in report.cpu if time.cell == label]
    if cpu:
        yield Chart(
            f"{key}c",
            "CPU time",
            "What a trial costs in CPU time, and where it is seen. A guest cannot see what its VMM "
            "uses: compare the whole machine.",
            charts.cpu(cpu, report),
            ("platform", "seen", "mode", "seconds a trial", "trials"),
            tuple(
                (t.platform, t.seen, t.mode, _quantity(report, t.seconds_s, "s"), str(t.trials))
                for t in cpu
            ),
        )


def _ranges(report: Report, points: Sequence[SeriesPoint]) -> Iterator[tuple[str, ...]]:
    lines: dict[tuple[int, str, str], list[float]] = {}
    for point in points:
        lines.setdefault((point.trial, point.platform, point.task), []).append(point.value)
    for (trial, platform, task), values in lines.items():
        ends = [_quantity(report, end, "b/s") for end in (min(values), max(values))]
        yield (str(trial), platform, task, *ends)


def _quantity(report: Report, value: float, unit: str) -> str:
    """A figure that is no response, in a unit of the run's clock."""
    return figures.quantity(value, unit + mark_of(report.summary.clock))


def _output(failure: Failure) -> list[tuple[str, str]]:
    """What a failed trial left to read."""
    console = [("console", "\n".join(failure.console))] if failure.console else []
    return console + list(failure.output.items())
