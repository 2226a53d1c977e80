"""Stacked bars over a factor: each segment is the part of one of several guests, the height their sum."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from hypertare.base import figures
from hypertare.base.words import factor_text, word
from hypertare.report import charts, levels, vega, verdict
from hypertare.report.colours import LEVELS
from hypertare.report.model import Report
from hypertare.report.vega import Spec, colour, field, layers, mark, sized, values
from hypertare.runs.summary import Estimate
from hypertare.study.plots import Plot

NOTE = (
    "Means over trials, a part for each guest, in the order in which they were made. A line across a bar "
    "is what native does with as many flows."
)

_DRIVER = {"outside_cpu": "driver_cpu", "outside_cpu_share": "driver_cpu_share"}
"""What stands under the guests' parts, where a driver domain works for them."""

_DRIVER_NAME = "driver domain"
_DRIVER_COLOUR = "#7a869a"


@dataclass(frozen=True)
class StackSegment:
    """One guest's part of a bar, or the driver domain's."""

    name: str
    estimate: Estimate
    label: str


def found(plot: Plot, report: Report) -> list[StackSegment]:
    """In the order of tables: by facet and level, the driver domain first, then guests by number.

    A guest that works alone is measured as the whole.
    """
    baseline = report.meta.baseline
    alone = [
        e for e in report.summary.estimates if e.response == plot.y and not _is_several(e, report)
    ]
    parts = [
        StackSegment(f"guest {one.guest or 1}", one, one.platform)
        for one in (*alone, *report.summary.guests)
        if one.response == plot.y and _is_of(plot, one, baseline)
    ]
    driver = [
        StackSegment(_DRIVER_NAME, one, one.platform)
        for one in report.summary.estimates
        if one.response == _DRIVER.get(plot.y) and _is_of(plot, one, baseline)
    ]
    return sorted([*driver, *parts], key=lambda part: _place(plot, part))


def chart(plot: Plot, report: Report, parts: Sequence[StackSegment]) -> Spec:
    natives = _natives(plot, report)
    highest = max([*_totals(plot, parts).values(), *(one.estimate for one in natives)])
    divisor, unit = figures.scale(highest, parts[0].estimate.unit)
    tallest = highest / divisor
    names = sorted({part.name for part in parts}, key=_order_of_name)
    shown = [levels.shown(part.estimate.cell[plot.x]) for part in parts]
    order = sorted(dict.fromkeys(shown), key=lambda text: _level_place(plot, parts, text))
    data = [
        {
            "level": level,
            "part": part.name,
            "order": names.index(part.name),
            "value": part.estimate.estimate / divisor,
            "facet": _facet(plot, part, parts),
        }
        for part, level in zip(parts, shown, strict=True)
    ]
    lines = [
        {
            "level": levels.shown(one.cell[plot.x]),
            "value": one.estimate / divisor,
            "facet": facet,
        }
        for one in natives
        for facet in _facets_of(plot, one, parts)
    ]
    colours = {
        name: _DRIVER_COLOUR if name == _DRIVER_NAME else LEVELS[(int(name[6:]) - 1) % 8]
        for name in names
    }
    bars = {
        "x": field("level:N", title=factor_text(plot.x), sort=order, axis={"labelAngle": 0}),
        "y": field(
            "value:Q",
            title=f"{word(plot.y)}, {unit}",
            scale={"domain": [0, tallest], "nice": True},
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


def rows(plot: Plot, parts: Sequence[StackSegment]) -> Iterator[tuple[str, ...]]:
    for part in parts:
        one = part.estimate
        yield (
            *(levels.shown(one.cell[factor]) for factor in plot.factors),
            part.label,
            part.name,
            *verdict.mean_text(one, one.unit),
        )


def _is_several(one: Estimate, report: Report) -> bool:
    """Whether an estimate is of several guests, each of which has an estimate of its own too."""
    return any(
        (e.platform, e.cell, e.response) == (one.platform, one.cell, one.response)
        for e in report.summary.guests
    )


def _is_of(plot: Plot, one: Estimate, baseline: str) -> bool:
    return one.platform != baseline and plot.shows(one.cell)


def _place(plot: Plot, part: StackSegment) -> tuple[Any, ...]:
    cell = part.estimate.cell
    facet = levels.order(cell[plot.facet]) if plot.facet else (0, 0.0, "")
    return (part.label, facet, levels.order(cell[plot.x]), _order_of_name(part.name))


def _order_of_name(name: str) -> int:
    return 0 if name == _DRIVER_NAME else int(name.removeprefix("guest "))


def _level_place(plot: Plot, parts: Sequence[StackSegment], text: str) -> tuple[int, float, str]:
    at = (part.estimate.cell[plot.x] for part in parts)
    return levels.order(next(level for level in at if levels.shown(level) == text))


def _facet(plot: Plot, part: StackSegment, parts: Sequence[StackSegment]) -> str:
    platforms = len({one.label for one in parts}) > 1
    named = [part.label] if platforms else []
    if plot.facet:
        named.append(f"{factor_text(plot.facet)} {levels.shown(part.estimate.cell[plot.facet])}")
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


def _facets_of(plot: Plot, native: Estimate, parts: Sequence[StackSegment]) -> list[str]:
    """The panes in which a baseline's line belongs: of every platform in its cell."""
    same = (part for part in parts if part.estimate.cell == native.cell)
    return list(dict.fromkeys(_facet(plot, part, parts) for part in same))


def _totals(plot: Plot, parts: Sequence[StackSegment]) -> dict[tuple[str, str], float]:
    sums: dict[tuple[str, str], float] = {}
    for part in parts:
        at = (_facet(plot, part, parts), levels.shown(part.estimate.cell[plot.x]))
        sums[at] = sums.get(at, 0.0) + part.estimate.estimate
    return sums
