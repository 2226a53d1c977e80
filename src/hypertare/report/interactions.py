"""Whether one factor changes what another does: lines that are parallel where it does not."""

from __future__ import annotations

from collections.abc import Sequence

from hypertare.base.words import factor_text
from hypertare.report import colours, fields, levels, vega
from hypertare.report.fields import Field
from hypertare.report.model import Report
from hypertare.report.vega import LEGEND, Spec, colour, field, layers, mark, until, values
from hypertare.study.plots import Plot

PARALLEL = f"{fields.NOTE} Parallel lines: neither factor changes the effect of the other."


def interaction(plot: Plot, report: Report, shown: Sequence[Field]) -> Spec:
    """A pane for each platform, and each level of `facet`; logarithmic, for effects are factors."""
    assert plot.lines is not None
    is_log = all(one.low > 0 for one in shown)
    divisor, unit = fields.scale(shown, logarithmic=is_log)
    figure = fields.measure(plot, unit)
    axis = {"type": "log", "nice": False, "padding": 12} if is_log else {"zero": False}
    title = f"{figure} (logarithmic)" if is_log else figure
    lines = colours.of_levels(levels.in_order(one.levels[-2] for one in shown))
    common = {
        "x": fields.along(plot, shown),
        "color": colour("line", lines, {**LEGEND, "title": factor_text(plot.lines)}),
        "tooltip": fields.tips(plot, figure),
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
        for pane, rows in fields.panes(shown, divisor).items()
    }
    return vega.panes(drawn, columns=2, width=300)
