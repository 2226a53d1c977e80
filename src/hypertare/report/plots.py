"""Plots of a study as charts and as tables of the same figures."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

import altair as alt

from hypertare.plots import Plot
from hypertare.report import charts, units, verdict
from hypertare.report.model import Report
from hypertare.summary import Estimate, Level
from hypertare.units import parse_of_capacity, parse_rate, parse_size

_OF_CAPACITY = "% of capacity"


@dataclass(frozen=True)
class Drawn:
    """A plot's chart with the figures that it shows."""

    plot: Plot
    note: str
    chart: Any
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def drawn(report: Report) -> Iterator[Drawn]:
    """Every plot of the run's study of which there are figures."""
    for raw in report.meta.settings.get("plots", []):
        plot = Plot.model_validate(raw)
        estimates = [one for one in report.summary.estimates if _is_of(plot, one)]
        if estimates:
            estimates.sort(key=lambda one: [_order(one.cell[f]) for f in _by(plot)])
            yield _drawn(plot, report, estimates)


def _is_of(plot: Plot, one: Estimate) -> bool:
    return (
        one.response == plot.y
        and one.cell.get("workload") == plot.workload
        and all(factor in one.cell for factor in plot.factors)
    )


def _by(plot: Plot) -> tuple[str, ...]:
    """Factors in the order in which a reader looks something up."""
    return tuple(factor for factor in (plot.facet, plot.lines, plot.x) if factor is not None)


def _drawn(plot: Plot, report: Report, estimates: Sequence[Estimate]) -> Drawn:
    divisor, unit = units.scale(median(abs(one.estimate) for one in estimates), estimates[0].unit)
    others = _others(plot, estimates)
    rows = tuple(
        (
            *(_shown(one.cell[factor]) for factor in _by(plot)),
            *(_shown(one.cell[factor]) for factor in others),
            one.platform,
            *verdict.mean_text(one, one.unit),
        )
        for one in estimates
    )
    names = [_name(factor) for factor in (*_by(plot), *others)]
    interval = f"{report.meta.confidence * 100:g} % interval"
    head = (*names, "platform", verdict.word(plot.y), interval)
    note = "Means with their intervals."
    if plot.published:
        note += f" Published: {plot.published}"
    title = f"{verdict.word(plot.y)}, {unit}" if unit else verdict.word(plot.y)
    return Drawn(plot, note, _chart(plot, estimates, others, divisor, title), head, rows)


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
) -> Any:
    numeric = all(_number(one.cell[plot.x]) is not None for one in estimates)
    platforms = len({one.platform for one in estimates})
    rows = [_row(plot, one, others, divisor, platforms > 1) for one in estimates]
    lines = list(dict.fromkeys(row["line"] for row in rows))
    colour = alt.Color(
        "line:N",
        scale=alt.Scale(domain=lines, range=[charts.PALETTE[i % 8] for i in range(len(lines))]),
        legend=alt.Legend(title=_name(plot.lines) if plot.lines else None, orient="top"),
    )
    positive = numeric and min(row["x"] for row in rows) > 0
    wide = positive and max(row["x"] for row in rows) / min(row["x"] for row in rows) > 30
    x: Any = alt.X("level:N", title=_axis(plot, estimates), sort=None)
    if numeric:
        scale = alt.Scale(type="log", nice=False, padding=12) if wide else alt.Scale(padding=12)
        x = alt.X("x:Q", title=_axis(plot, estimates), scale=scale)
    base = alt.Chart(alt.InlineData(values=rows)).encode(
        x=x,
        color=colour,
        tooltip=[
            alt.Tooltip("level:N", title=_name(plot.x)),
            alt.Tooltip("line:N", title=_name(plot.lines) if plot.lines else "line"),
            *(alt.Tooltip(f"{end}:Q", format=".4~g") for end in ("mean", "low", "high")),
        ],
    )
    y = alt.Y("mean:Q", title=title, scale=alt.Scale(zero=True))
    layers = alt.layer(
        base.mark_line(size=2).encode(y=y),
        base.mark_point(filled=True, size=45, opacity=1).encode(y=y),
        base.mark_rule(size=1.5).encode(y=alt.Y("low:Q", title=title), y2="high:Q"),
    )
    if plot.facet is None:
        return layers.properties(width="container", height=280)
    facets = list(dict.fromkeys(row["facet"] for row in rows))
    panes = [
        layers.transform_filter(alt.datum.facet == name).properties(
            width=300, height=240, title=f"{_name(plot.facet)} {name}"
        )
        for name in facets
    ]
    return alt.concat(*panes, columns=2)


def _row(
    plot: Plot, one: Estimate, others: Sequence[str], divisor: float, platforms: bool
) -> dict[str, Any]:
    level = one.cell[plot.x]
    parts = [_shown(one.cell[plot.lines])] if plot.lines else []
    parts += [_shown(one.cell[factor]) for factor in others]
    parts += [one.platform] if platforms or not parts else []
    low, high = verdict.mean_ends(one)
    return {
        "x": _number(level),
        "level": _shown(level),
        "line": ", ".join(parts),
        "facet": _shown(one.cell[plot.facet]) if plot.facet else "",
        "mean": one.estimate / divisor,
        "low": (one.estimate if low is None else low) / divisor,
        "high": (one.estimate if high is None else high) / divisor,
    }


def _axis(plot: Plot, estimates: Sequence[Estimate]) -> str:
    if all(parse_of_capacity(one.cell[plot.x]) is not None for one in estimates):
        return f"offered {_name(plot.x)}, {_OF_CAPACITY}"
    if plot.x.endswith(".rate"):
        return "offered rate, b/s"
    return _name(plot.x)


def _name(factor: str) -> str:
    return factor.rpartition(".")[2].replace("_", " ")


def _shown(level: Level) -> str:
    return (
        str(level).replace(f" {_OF_CAPACITY}", " %")
        if not isinstance(level, bool)
        else ("on" if level else "off")
    )


def _number(level: Level) -> float | None:
    """What an axis of numbers has for a level: per cent of a capacity, b/s, bytes, or the number."""
    if isinstance(level, bool):
        return None
    if isinstance(level, int | float):
        return float(level)
    share = parse_of_capacity(level)
    if share is not None:
        return 100 * share
    return None


def _order(level: Level) -> tuple[int, float, str]:
    """Sorts levels by what they mean; words after numbers, by their letters."""
    number = _number(level)
    if number is None and isinstance(level, str):
        for parse in (parse_rate, parse_size):
            try:
                number = float(parse(level))
                break
            except ValueError:
                continue
    return (1, 0.0, str(level)) if number is None else (0, number, "")
