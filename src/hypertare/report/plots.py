"""Plots of a study as charts and as tables of the same figures."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import pairwise
from typing import Any

from hypertare.base import figures
from hypertare.base.figures import factor_text, word
from hypertare.base.units import parse_of_capacity
from hypertare.report import charts, colours, distributions, fields, levels, stacks, vega, verdict
from hypertare.report.fields import PARALLEL, interaction, surface
from hypertare.report.levels import OF_CAPACITY
from hypertare.report.model import Report
from hypertare.report.vega import Chart, Spec, colour, field, layers, mark, sized, until, values
from hypertare.runs.summary import Estimate
from hypertare.study.claims import Plot

_OTHERS: Mapping[str, tuple[Any, str, Callable[..., Spec]]] = {
    "stacked": (stacks, stacks.NOTE, stacks.chart),
    "distribution": (distributions, distributions.NOTE, distributions.chart),
    "surface": (fields, fields.NOTE, surface),
    "interaction": (fields, PARALLEL, interaction),
}
"""What draws the other shapes: what has found, head and rows; a note; and the chart."""

_DASHES = ([1, 0], [7, 4], [2, 3], [9, 3, 2, 3])
_SHAPES = ("circle", "square", "triangle-up", "diamond")

_FEW_LEVELS = 10
"""So many an axis of numbers names one by one."""


def drawn(report: Report) -> list[Chart]:
    """Every plot of the run's study of which there are figures."""
    made: list[Chart] = []
    for raw in report.meta.settings.get("plots", []):
        plot = Plot.model_validate(raw)
        id = f"plot{len(made)}"
        if plot.shape == "lines":
            estimates = [
                one
                for one in report.summary.estimates
                if one.response == plot.y and plot.shows(one.cell)
            ]
            if estimates:
                estimates.sort(
                    key=lambda one: [levels.order(one.cell[f]) for f in plot.factors[::-1]]
                )
                made.append(_lines(id, plot, report, estimates))
            continue
        other, note, chart = _OTHERS[plot.shape]
        if found := other.found(plot, report):
            spec = chart(plot, report, found)
            rows = tuple(other.rows(plot, found))
            made.append(Chart(id, plot.title, _note(plot, note), spec, other.head(plot), rows))
    return made


def _note(plot: Plot, note: str) -> str:
    return f"{note} Published: {plot.published}" if plot.published else note


def _lines(id: str, plot: Plot, report: Report, estimates: Sequence[Estimate]) -> Chart:
    ends = (end for one in estimates for end in (verdict.mean(one), *verdict.mean_ends(one)))
    drawn = (end for end in ends if end is not None)
    divisor, unit = figures.axis_scale(drawn, estimates[0].unit)
    # In the order in which a reader looks something up.
    by, others = plot.factors[::-1], _others(plot, estimates)
    rows = tuple(
        (
            *(levels.shown(one.cell[factor]) for factor in (*by, *others)),
            one.platform,
            *verdict.mean_text(one, one.unit),
        )
        for one in estimates
    )
    names = [factor_text(factor) for factor in (*by, *others)]
    interval = verdict.confidence_text(report.meta.confidence)
    head = (*names, "platform", word(plot.y), interval)
    note = _note(plot, "Means with their intervals.")
    title = f"{word(plot.y)}, {unit}" if unit else word(plot.y)
    spec = _chart(plot, estimates, others, divisor, title)
    return Chart(id, plot.title, note, spec, head, rows)


def _others(plot: Plot, estimates: Sequence[Estimate]) -> tuple[str, ...]:
    """Factors that the plot does not name and that have several levels: each is a line of its own."""
    known = {"workload", *plot.factors}
    names = dict.fromkeys(factor for one in estimates for factor in one.cell)
    return tuple(
        factor
        for factor in names
        if factor not in known and len({str(one.cell.get(factor)) for one in estimates}) > 1
    )


def _chart(
    plot: Plot,
    estimates: Sequence[Estimate],
    others: Sequence[str],
    divisor: float,
    title: str,
) -> Spec:
    platforms = len({one.platform for one in estimates}) > 1
    rows = [_row(plot, one, others, divisor, platforms) for one in estimates]
    lines = {row["line"]: row["platform"] for row in rows}
    named = factor_text(plot.lines) if plot.lines else None
    legend = {**vega.LEGEND, "title": named}
    common = {
        "x": _x(plot, estimates, rows),
        "color": colour("line", colours.of_lines(lines), legend),
        "tooltip": [
            field("level:N", title=factor_text(plot.x)),
            field("line:N", title=named or "line"),
            *vega.fields("mean:Q", "low:Q", "high:Q", format=",.4~r"),
        ],
    }
    # What lies below another line shows between its dashes, and its points inside the other's.
    dash = field("line:N", scale=_in_turn(lines, _DASHES), legend=legend)
    shape = field("line:N", scale=_in_turn(lines, _SHAPES), legend=legend)
    y = field("mean:Q", title=title, scale={"zero": True}, axis=vega.PLAIN)
    means = {**common, "y": y}
    ends = {**common, "y": field("low:Q", title=title), "y2": until("high")}
    drawn = {
        facet: layers(
            mark("line", {**means, "strokeDash": dash}, size=2),
            mark("point", {**means, "shape": shape}, size=60, strokeWidth=2, opacity=1),
            mark("rule", ends, size=1.5),
            data=values(chosen),
        )
        for facet, chosen in charts.by_facet(rows).items()
    }
    if plot.facet is None:
        (only,) = drawn.values()
        return sized(only, height=240)
    titled = {f"{factor_text(plot.facet)} {facet}": one for facet, one in drawn.items()}
    return vega.panes(titled, columns=2, width=300)


def _in_turn(names: Collection[str], styles: Sequence[Any]) -> Spec:
    return vega.named({name: styles[n % len(styles)] for n, name in enumerate(names)})


def _x(plot: Plot, estimates: Sequence[Estimate], rows: Sequence[Mapping[str, Any]]) -> Spec:
    """The axis of levels: of numbers where all are numbers."""
    title = _axis(plot, estimates)
    if any(row["x"] is None for row in rows):
        return field("level:N", title=title, sort=None)
    at = sorted({row["x"] for row in rows})
    # Levels that grow by a factor stand apart on an axis of factors.
    doubles = len(at) > 2 and all(high >= 1.9 * low for low, high in pairwise(at))
    wide = at[0] > 0 and (at[-1] / at[0] > 30 or doubles)
    few = {"values": at} if len(at) <= _FEW_LEVELS else {}
    return field(
        "x:Q",
        title=title,
        scale={"type": "log", "nice": False, "padding": 12} if wide else {"padding": 12},
        axis={"grid": False, "labelOverlap": "greedy", **vega.PLAIN, **few},
    )


def _row(
    plot: Plot, one: Estimate, others: Sequence[str], divisor: float, platforms: bool
) -> dict[str, Any]:
    level = one.cell[plot.x]
    parts = [levels.shown(one.cell[plot.lines])] if plot.lines else []
    parts += [levels.shown(one.cell[factor]) for factor in others]
    parts += [one.platform] if platforms or not parts else []
    return {
        "x": levels.number(level),
        "level": levels.shown(level),
        "line": ", ".join(parts),
        "platform": one.platform,
        "facet": levels.shown(one.cell[plot.facet]) if plot.facet else "",
        **verdict.mean_row(one, divisor),
    }


def _axis(plot: Plot, estimates: Sequence[Estimate]) -> str:
    if all(parse_of_capacity(one.cell[plot.x]) is not None for one in estimates):
        return f"offered {factor_text(plot.x)}, {OF_CAPACITY}"
    if plot.x.endswith(".rate"):
        return "offered rate, b/s"
    return factor_text(plot.x)
