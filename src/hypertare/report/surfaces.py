"""Two factors at once: a field for each pair of levels, with its figure and a colour."""

from __future__ import annotations

from collections.abc import Sequence

from hypertare.base.words import factor_text
from hypertare.report import charts, fields, vega
from hypertare.report.fields import NOTE, Field, found, head, rows
from hypertare.report.model import Report
from hypertare.report.vega import Spec, field, layers, mark, sized, values
from hypertare.study.plots import Plot

__all__ = ["NOTE", "chart", "found", "head", "rows"]

_COLOURS = "viridis"
"""As bright as the figure is high: apart for the colour-blind too, and in grey."""

_BRIGHT = 0.6
"""Of the way from the least figure to the most: from here on letters are dark."""

_FIELD = 34
"""Pixels of a field's height."""


def chart(plot: Plot, report: Report, shown: Sequence[Field]) -> Spec:
    """A pane for each platform, and each level of `facet`; all have the same colours."""
    assert plot.lines is not None
    divisor, unit = fields.scale(shown)
    data = fields.data(shown, divisor)
    means = [row["mean"] for row in data]
    least, most = min(means), max(means)
    for row in data:
        row["bright"] = row["mean"] - least > _BRIGHT * (most - least)
    name = fields.title(plot)
    figure = f"{name}, {unit}" if unit else name
    up = list(reversed(fields.in_order(shown, -2)))
    at = {
        "x": field(
            "x:N",
            sort=fields.in_order(shown, -1),
            title=factor_text(plot.x),
            axis={"labelAngle": 0, "grid": False},
        ),
        "y": field("line:N", sort=up, title=factor_text(plot.lines), axis={"grid": False}),
    }
    tips = [
        field("x:N", title=factor_text(plot.x)),
        field("line:N", title=factor_text(plot.lines)),
        field("mean:Q", title=figure, format=".4~g"),
        *vega.fields("low:Q", "high:Q", format=".4~g"),
        field("cells:Q"),
    ]
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
    drawn = {
        pane: layers(
            mark("rect", {**at, "color": coloured, "tooltip": tips}),
            mark(
                "text",
                {**at, "text": field("mean:Q", format=".3~r"), "color": letters, "tooltip": tips},
                fontSize=11,
            ),
            data=values(of_pane),
        )
        for pane, of_pane in charts.by_facet(data).items()
    }
    height = max(120, _FIELD * len(up))
    return {
        "concat": [{**sized(one, height, 300), "title": pane} for pane, one in drawn.items()],
        "columns": 2,
    }
