"""Distributions of round-trip times of several settings in one picture."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from hypertare.base import figures
from hypertare.base.figures import factor_text
from hypertare.report import charts, colours, levels, vega
from hypertare.report.model import EcdfPoint, Report
from hypertare.report.vega import Spec, colour, field, layers, mark, sized, values
from hypertare.stats.histograms import NEAR
from hypertare.study.claims import Plot
from hypertare.workloads.responses import mark_of

NOTE = (
    "All round trips of all counted trials of a setting. They are not independent: intervals of "
    "percentiles stand with their cells. Left of a dashed line, the baseline's 95 % quantile, they are "
    "near."
)

_QUANTILES = (0.5, 0.9, 0.99, 0.999)
WITHIN = tuple(f"{100 * share:g} % within" for share in _QUANTILES)


@dataclass(frozen=True)
class Distribution:
    """A setting's distribution; `unit` is of its values."""

    name: str
    platform: str
    facet: str
    points: tuple[EcdfPoint, ...]
    unit: str


def found(plot: Plot, report: Report) -> list[Distribution]:
    """By facet, then by line."""
    cells = report.cells
    groups: dict[tuple[str, str], list[EcdfPoint]] = {}
    for point in report.ecdf:
        if plot.shows(cells[point.cell]):
            groups.setdefault((point.cell, point.platform), []).append(point)
    places = sorted(
        groups,
        key=lambda at: (
            [levels.order(cells[at[0]][f]) for f in (plot.facet, plot.lines) if f],
            report.platforms.index(at[1]),
        ),
    )
    unit = f"s{mark_of(report.summary.clock)}"
    return [
        Distribution(
            _line(plot, cells[cell], platform, report),
            report.platform_of[platform],
            f"{factor_text(plot.facet)} {levels.shown(cells[cell][plot.facet])}"
            if plot.facet
            else "",
            tuple(groups[cell, platform]),
            unit,
        )
        for cell, platform in places
    ]


def chart(plot: Plot, report: Report, lines: Sequence[Distribution]) -> Spec:
    found = [point.value_s for line in lines for point in line.points]
    divisor, unit = figures.axis_scale(found, lines[0].unit, logarithmic=True)
    data = [
        {
            "line": line.name,
            "facet": line.facet,
            "value": point.value_s / divisor,
            "share": point.share,
        }
        for line in lines
        for point in line.points
    ]
    # Panes of one scale, so that they can be compared.
    ends = [min(found) / divisor, max(found) / divisor]
    chosen = colours.of_lines({line.name: line.platform for line in lines})
    title = factor_text(plot.lines) if plot.lines else None
    times = {
        "title": f"round-trip time, {unit} (logarithmic)",
        "scale": {"type": "log", "nice": False, "domain": ends},
        "axis": {"tickCount": 6, "labelOverlap": "greedy", **vega.PLAIN},
    }
    encoding = {
        "x": field("value:Q", **times),
        "y": field("share:Q", title="share of round trips", axis={"format": "%"}),
        "color": colour("line", chosen, {**vega.LEGEND, "title": title}),
        "tooltip": [
            field("line:N"),
            field("value:Q", format=",.4~r", title=unit),
            field("share:Q", format=".2%"),
        ],
    }
    near = _near(lines, report.meta.baseline)
    drawn = {
        facet: layers(
            mark("line", encoding, data=values(rows), interpolate="step-after", size=2),
            mark(
                "rule",
                {"x": field("near:Q", **times)},
                data=values([{"near": limit / divisor} for limit in near.get(facet, ())]),
                strokeDash=[4, 3],
            ),
        )
        for facet, rows in charts.by_facet(data).items()
    }
    if len(drawn) == 1:
        (only,) = drawn.values()
        return sized(only, height=280)
    return vega.panes(drawn, columns=2, width=300)


def _near(lines: Sequence[Distribution], baseline: str) -> dict[str, list[float]]:
    """Returns, by facet, the times of the baseline up to which a round trip counts as near."""
    found: dict[str, list[float]] = {}
    for line in lines:
        if line.platform == baseline:
            limit = next(point.value_s for point in line.points if point.share >= NEAR)
            found.setdefault(line.facet, []).append(limit)
    return found


def head(plot: Plot) -> tuple[str, ...]:
    named = [factor_text(plot.facet)] if plot.facet else []
    return (*named, "setting", *WITHIN)


def rows(plot: Plot, lines: Sequence[Distribution]) -> Iterator[tuple[str, ...]]:
    for line in lines:
        facet = [line.facet] if plot.facet else []
        yield (*facet, line.name, *quantile_texts(line.points, line.unit))


def quantile_texts(points: Sequence[EcdfPoint], unit: str) -> Iterator[str]:
    """One for each of `WITHIN`."""
    for share in _QUANTILES:
        yield figures.quantity(next(p.value_s for p in points if p.share >= share), unit)


def _line(plot: Plot, cell: Any, platform: str, report: Report) -> str:
    several = len(report.platforms) > 1
    named = [platform] if several or not plot.lines else []
    if plot.lines:
        named.insert(0, levels.shown(cell[plot.lines]))
    known = {"workload", *plot.factors, *plot.where}
    named += [
        levels.shown(level)
        for factor, level in cell.items()
        if factor not in known and (plot.workload, factor) in report.wording.varied
    ]
    return ", ".join(named)
