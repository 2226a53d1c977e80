"""Two factors at once: a field for each pair of levels, with its figure and a colour."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

from hypertare.base.words import factor_text
from hypertare.report import fields, levels, vega
from hypertare.report.fields import Field
from hypertare.report.model import Report
from hypertare.report.vega import Spec, field, layers, mark, values
from hypertare.study.plots import Plot

_COLOURS = "viridis"
"""As bright as the figure is high: apart for the colour-blind too, and in grey."""

_BRIGHT = 0.6
"""Of the way from the least figure to the most: from here on letters are dark."""

_FIELD = 34
"""Pixels of a field's height."""


def surface(plot: Plot, report: Report, shown: Sequence[Field]) -> Spec:
    """A pane for each platform, and each level of `facet`; all have the same colours."""
    assert plot.lines is not None
    divisor, unit = fields.scale(shown)
    of_panes = fields.panes(shown, divisor)
    means = [one.mean / divisor for one in shown]
    least, most = min(means), max(means)
    for row in chain.from_iterable(of_panes.values()):
        row["bright"] = row["mean"] - least > _BRIGHT * (most - least)
    figure = fields.measure(plot, unit)
    up = levels.in_order(one.levels[-2] for one in shown)[::-1]
    at = {
        "x": fields.along(plot, shown),
        "y": field("line:N", sort=up, title=factor_text(plot.lines), axis={"grid": False}),
        "tooltip": fields.tips(plot, figure),
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
