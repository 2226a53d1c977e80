"""Whether one factor changes what another does: lines that are parallel where it does not."""

from __future__ import annotations

from collections.abc import Sequence

from hypertare.base.words import factor_text
from hypertare.report import charts, colours, fields, vega
from hypertare.report.fields import Field, found, head, rows
from hypertare.report.model import Report
from hypertare.report.vega import LEGEND, Spec, colour, field, layers, mark, until, values
from hypertare.study.plots import Plot

__all__ = ["NOTE", "chart", "found", "head", "rows"]

NOTE = f"{fields.NOTE} Parallel lines: neither factor changes the effect of the other."


def chart(plot: Plot, report: Report, shown: Sequence[Field]) -> Spec:
    """A pane for each platform, and each level of `facet`; logarithmic, for effects are factors."""
    assert plot.lines is not None
    is_log = all(one.low > 0 for one in shown)
    divisor, unit = fields.scale(shown, logarithmic=is_log)
    data = fields.data(shown, divisor)
    name = fields.title(plot)
    figure = f"{name}, {unit}" if unit else name
    axis = {"type": "log", "nice": False, "padding": 12} if is_log else {"zero": False}
    title = f"{figure} (logarithmic)" if is_log else figure
    lines = colours.of_levels(fields.in_order(shown, -2))
    common = {
        "x": field(
            "x:N",
            sort=fields.in_order(shown, -1),
            title=factor_text(plot.x),
            axis={"labelAngle": 0, "grid": False},
        ),
        "color": colour("line", lines, {**LEGEND, "title": factor_text(plot.lines)}),
        "tooltip": [
            field("x:N", title=factor_text(plot.x)),
            field("line:N", title=factor_text(plot.lines)),
            field("mean:Q", title=figure, format=".4~g"),
            *vega.fields("low:Q", "high:Q", format=".4~g"),
            field("cells:Q"),
        ],
    }
    means = {**common, "y": field("mean:Q", title=title, scale=axis)}
    ends = {**common, "y": field("low:Q", title=title, scale=axis), "y2": until("high")}
    drawn = {
        pane: layers(
            mark("line", means, size=2),
            mark("point", means, filled=True, size=45, opacity=1),
            mark("rule", ends, size=1.5),
            data=values(of_pane),
        )
        for pane, of_pane in charts.by_facet(data).items()
    }
    return vega.panes(drawn, columns=2, width=300)
