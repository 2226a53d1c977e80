"""Means of a response over two factors, all others averaged: as surfaces, and as interactions."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

from hypertare.base import figures
from hypertare.base.figures import factor_text, word
from hypertare.base.variables import Level
from hypertare.findings.many_cells import Rounds, log_ratios, mean, values_of
from hypertare.findings.series import Series, series
from hypertare.report import charts, colours, levels, vega
from hypertare.report.model import Report
from hypertare.report.vega import LEGEND, Spec, colour, field, layers, mark, until, values
from hypertare.study.claims import Plot

NOTE = (
    "Means over trials and over all other factors, with their intervals; geometric where all are above "
    "zero."
)


@dataclass(frozen=True)
class Field:
    """The mean of a response at one level of each of two factors, on one platform.

    `levels` are of the facet if there is one, of `lines` and of `x`; `cells` is the number of cells in the
    mean. `low` and `high` are the mean itself if it has no interval.
    """

    pane: str
    levels: tuple[Level, ...]
    platform: str
    mean: float
    low: float
    high: float
    cells: int
    unit: str


def found(plot: Plot, report: Report) -> list[Field]:
    """By pane, then as tables are read."""
    assert plot.lines is not None
    every = series(report.trials)
    groups: dict[tuple[str, tuple[Level, ...]], list[Series]] = {}
    for one in every:
        if plot.shows(one.cell):
            place = tuple(one.cell[factor] for factor in plot.factors[::-1])
            name = report.wording.platform(one.platform, one.cell)
            groups.setdefault((name, place), []).append(one)
    order = {name: place for place, name in enumerate(report.platforms)}
    places = sorted(groups, key=lambda at: (order.get(at[0], 0), *map(levels.order, at[1])))
    fields = (_field(plot, report, at, groups[at], every) for at in places)
    return [one for one in fields if one is not None]


def _field(
    plot: Plot,
    report: Report,
    at: tuple[str, tuple[Level, ...]],
    own: Sequence[Series],
    every: Sequence[Series],
) -> Field | None:
    platform, place = at
    response = report.responses(plot.workload)[plot.y]
    logs = True
    if plot.of == "efficiency":
        sign = 1 if response.better == "higher" else -1
        figures: list[tuple[Series, Rounds]] = [
            (one, {n: sign * log for n, log in of_one.items()})
            for one in own
            if (of_one := log_ratios(one, plot.y, every, report.meta.baseline))
        ]
    else:
        logs = all(value > 0 for one in own for value in one.values(plot.y)[0])
        figures = [(one, rounds) for one in own if (rounds := values_of(one, plot.y, logs))]
    averaged = mean(figures, report.meta.confidence)
    if averaged is None:
        return None
    seen, cells = averaged
    ends = [seen.estimate if end is None else end for end in (seen.estimate, seen.low, seen.high)]
    value, low, high = (math.exp(end) if logs else end for end in ends)
    facet = f", {factor_text(plot.facet)} {levels.shown(place[0])}" if plot.facet else ""
    return Field(
        pane=f"{platform}{facet}",
        levels=place,
        platform=platform,
        mean=value,
        low=low,
        high=high,
        cells=cells,
        unit="" if plot.of == "efficiency" else response.unit,
    )


def measure(plot: Plot, unit: str = "") -> str:
    name = f"efficiency in {word(plot.y)}" if plot.of == "efficiency" else word(plot.y)
    return f"{name}, {unit}" if unit else name


def scale(fields: Sequence[Field], *, logarithmic: bool = False) -> tuple[float, str]:
    """Returns the divisor of all figures of a chart, and the unit of the quotients."""
    drawn = (value for one in fields for value in (one.mean, one.low, one.high))
    return figures.axis_scale(drawn, fields[0].unit, logarithmic=logarithmic)


def panes(fields: Sequence[Field], divisor: float) -> dict[str, list[dict[str, Any]]]:
    """Rows of a chart, by pane."""
    return charts.by_facet(
        [
            {
                "x": levels.shown(one.levels[-1]),
                "line": levels.shown(one.levels[-2]),
                "facet": one.pane,
                "mean": one.mean / divisor,
                "low": one.low / divisor,
                "high": one.high / divisor,
                "cells": one.cells,
            }
            for one in fields
        ]
    )


def along(plot: Plot, fields: Sequence[Field]) -> Spec:
    """The axis of `x`."""
    return field(
        "x:N",
        sort=levels.in_order(one.levels[-1] for one in fields),
        title=factor_text(plot.x),
        axis={"labelAngle": 0, "grid": False},
    )


def tips(plot: Plot, figure: str) -> list[Spec]:
    return [
        field("x:N", title=factor_text(plot.x)),
        field("line:N", title=factor_text(plot.lines or "")),
        field("mean:Q", title=figure, format=".4~g"),
        *vega.fields("low:Q", "high:Q", format=".4~g"),
        field("cells:Q"),
    ]


def head(plot: Plot) -> tuple[str, ...]:
    named = (factor_text(factor) for factor in plot.factors[::-1])
    return (*named, "platform", measure(plot), "interval", "cells")


def rows(plot: Plot, fields: Sequence[Field]) -> Iterator[tuple[str, ...]]:
    for one in fields:
        # What cannot be below nought has no interval there.
        low = one.low if one.mean < 0 else max(0.0, one.low)
        texts = figures.measured(one.mean, low, one.high, one.unit)
        yield (*map(levels.shown, one.levels), one.platform, *texts, str(one.cells))


_COLOURS = "viridis"
"""As bright as the figure is high: apart for the colour-blind too, and in grey."""

_BRIGHT = 0.6
"""Of the way from the least figure to the most: from here on letters are dark."""

_FIELD = 34
"""Pixels of a field's height."""


def surface(plot: Plot, report: Report, shown: Sequence[Field]) -> Spec:
    """A pane for each platform, and each level of `facet`; all have the same colours."""
    assert plot.lines is not None
    divisor, unit = scale(shown)
    of_panes = panes(shown, divisor)
    means = [one.mean / divisor for one in shown]
    least, most = min(means), max(means)
    for row in chain.from_iterable(of_panes.values()):
        row["bright"] = row["mean"] - least > _BRIGHT * (most - least)
    figure = measure(plot, unit)
    up = levels.in_order(one.levels[-2] for one in shown)[::-1]
    at = {
        "x": along(plot, shown),
        "y": field("line:N", sort=up, title=factor_text(plot.lines), axis={"grid": False}),
        "tooltip": tips(plot, figure),
    }
    coloured = field(
        "mean:Q",
        title=figure,
        scale={"scheme": _COLOURS, "domain": [least, most], "zero": False},
        legend={"title": figure, "orient": "top", "gradientLength": 180},
    )
    letters = {
        "condition": {"test": "datum.bright", "value": "#101418"},
        "value": "#ffffff",
    }
    text = {**at, "text": field("mean:Q", format=".3~r"), "color": letters}
    drawn = {
        pane: layers(
            mark("rect", {**at, "color": coloured}),
            mark("text", text, fontSize=11),
            data=values(rows),
        )
        for pane, rows in of_panes.items()
    }
    return vega.panes(drawn, columns=2, width=300, height=max(120, _FIELD * len(up)))


PARALLEL = f"{NOTE} Parallel lines: neither factor changes the effect of the other."


def interaction(plot: Plot, report: Report, shown: Sequence[Field]) -> Spec:
    """A pane for each platform, and each level of `facet`; logarithmic, for effects are factors."""
    assert plot.lines is not None
    is_log = all(one.low > 0 for one in shown)
    divisor, unit = scale(shown, logarithmic=is_log)
    figure = measure(plot, unit)
    axis = {"type": "log", "nice": False, "padding": 12} if is_log else {"zero": False}
    title = f"{figure} (logarithmic)" if is_log else figure
    lines = colours.of_levels(levels.in_order(one.levels[-2] for one in shown))
    common = {
        "x": along(plot, shown),
        "color": colour("line", lines, {**LEGEND, "title": factor_text(plot.lines)}),
        "tooltip": tips(plot, figure),
    }
    means = {**common, "y": field("mean:Q", title=title, scale=axis)}
    ends = {**common, "y": field("low:Q", title=title, scale=axis), "y2": until("high")}
    drawn = {
        pane: layers(
            mark("line", means, size=2),
            mark("point", means, filled=True, size=45, opacity=1),
            mark("rule", ends, size=1.5),
            data=values(rows),
        )
        for pane, rows in panes(shown, divisor).items()
    }
    return vega.panes(drawn, columns=2, width=300)
