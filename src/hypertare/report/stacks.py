"""Stacked bars over a factor: each segment is the part of one of several guests, the height their sum."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from hypertare.base import figures
from hypertare.base.figures import factor_text, word
from hypertare.base.variables import key
from hypertare.report import charts, levels, vega, verdict
from hypertare.report.colours import LEVELS
from hypertare.report.model import Report
from hypertare.report.vega import Spec, colour, field, layers, mark, sized, values
from hypertare.runs.summary import Estimate
from hypertare.study.claims import Plot

NOTE = (
    "Means over trials, a part for each guest, in the order in which they were made. A line across a bar "
    "is what native does with as many flows."
)

_DRIVER = {"outside_cpu": "driver_cpu", "outside_cpu_share": "driver_cpu_share"}
"""What stands under the guests' parts, where a driver domain works for them."""

_DRIVER_COLOUR = "#7a869a"


def found(plot: Plot, report: Report) -> list[Estimate]:
    """In the order of tables: by facet and level, the driver domain first, then guests by number.

    A guest that works alone is measured as the whole.
    """
    every, guests = report.summary.estimates, report.summary.guests
    of_several = {(one.platform, key(one.cell), one.response) for one in guests}
    alone = (e for e in every if (e.platform, key(e.cell), e.response) not in of_several)
    parts = [one for one in (*alone, *guests) if one.response == plot.y]
    driver = [one for one in every if one.response == _DRIVER.get(plot.y)]
    shown = (
        one
        for one in (*driver, *parts)
        if one.platform != report.meta.baseline and plot.shows(one.cell)
    )
    return sorted(
        shown,
        key=lambda one: (
            one.platform,
            [levels.order(one.cell[factor]) for factor in (plot.facet, plot.x) if factor],
            _number(plot, one),
        ),
    )


def chart(plot: Plot, report: Report, parts: Sequence[Estimate]) -> Spec:
    natives = _natives(plot, report)
    totals: defaultdict[tuple[str, str], float] = defaultdict(float)
    for one in parts:
        totals[_facet(plot, one, parts), levels.shown(one.cell[plot.x])] += one.estimate
    highest = max([*totals.values(), *(one.estimate for one in natives)])
    divisor, unit = figures.scale(highest, parts[0].unit)
    order = levels.in_order(one.cell[plot.x] for one in parts)
    numbers = sorted({_number(plot, one) for one in parts})
    data = [
        {
            "level": levels.shown(one.cell[plot.x]),
            "part": _name(_number(plot, one)),
            "order": numbers.index(_number(plot, one)),
            "value": one.estimate / divisor,
            "facet": _facet(plot, one, parts),
        }
        for one in parts
    ]
    # A baseline's line belongs in the panes of every platform in its cell.
    lines = [
        {
            "level": levels.shown(one.cell[plot.x]),
            "value": one.estimate / divisor,
            "facet": facet,
        }
        for one in natives
        for facet in dict.fromkeys(_facet(plot, e, parts) for e in parts if e.cell == one.cell)
    ]
    colours = {_name(n): LEVELS[(n - 1) % 8] if n else _DRIVER_COLOUR for n in numbers}
    bars = {
        "x": field("level:N", title=factor_text(plot.x), sort=order, axis={"labelAngle": 0}),
        "y": field(
            "value:Q",
            title=f"{word(plot.y)}, {unit}",
            scale={"domain": [0, highest / divisor], "nice": True},
        ),
        "color": colour("part", colours),
        "order": field("order:Q"),
        "tooltip": [
            field("part:N"),
            field("level:N", title=factor_text(plot.x)),
            field("value:Q", format=",.4~r", title=unit),
        ],
    }
    baseline = {
        "x": field("level:N", sort=order),
        "y": field("value:Q"),
        "tooltip": [field("value:Q", format=",.4~r", title=f"native, {unit}")],
    }
    across = {
        facet: mark("tick", baseline, data=values(rows), thickness=2.5, bandSize=46)
        for facet, rows in charts.by_facet(lines).items()
    }
    drawn = {
        facet: layers(
            mark("bar", bars, data=values(rows), stroke="white", strokeWidth=0.6),
            *([across[facet]] if facet in across else []),
        )
        for facet, rows in charts.by_facet(data).items()
    }
    if len(drawn) == 1:
        (only,) = drawn.values()
        return sized(only, height=280)
    return vega.panes(drawn, columns=3, width=240)


def head(plot: Plot) -> tuple[str, ...]:
    named = (factor_text(factor) for factor in plot.factors)
    return (*named, "platform", "part", word(plot.y), "interval")


def rows(plot: Plot, parts: Sequence[Estimate]) -> Iterator[tuple[str, ...]]:
    for one in parts:
        yield (
            *(levels.shown(one.cell[factor]) for factor in plot.factors),
            one.platform,
            _name(_number(plot, one)),
            *verdict.mean_text(one, one.unit),
        )


def _number(plot: Plot, one: Estimate) -> int:
    """A guest's; 0 of the driver domain, whose response is another one."""
    return one.guest or 1 if one.response == plot.y else 0


def _name(number: int) -> str:
    return f"guest {number}" if number else "driver domain"


def _facet(plot: Plot, one: Estimate, parts: Sequence[Estimate]) -> str:
    named = [one.platform] if len({part.platform for part in parts}) > 1 else []
    if plot.facet:
        named.append(f"{factor_text(plot.facet)} {levels.shown(one.cell[plot.facet])}")
    return ", ".join(named)


def _natives(plot: Plot, report: Report) -> list[Estimate]:
    """Returns the baseline's estimates in the plot's cells; nothing for CPU time."""
    if plot.y in _DRIVER:
        return []
    return [
        one
        for one in report.summary.estimates
        if (one.response, one.platform) == (plot.y, report.meta.baseline) and plot.shows(one.cell)
    ]
