"""Charts of a report, as Vega-Lite through Altair. Each takes plain data and gives one chart.

Colours of text and axes are not set here: the page sets them for light and dark.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from statistics import median
from typing import Any

import altair as alt
from altair.utils import schemapi

from hypertare.report import units, verdict
from hypertare.report.model import CpuTime, EcdfPoint, Point, Polls, Report, SeriesPoint
from hypertare.report.totals import Bar
from hypertare.report.translation import Part
from hypertare.responses import VIRTUAL, mark_of
from hypertare.summary import Estimate

# Legible on white and on near-black, and apart for the colour-blind (after Okabe and Ito, 2008).
PALETTE = ("#3f8fd2", "#1f9e89", "#e07b39", "#c561a6", "#a98f1e", "#7d7ce0", "#d1495b", "#6b8e5a")
TONES = {"costs": "#d1495b", "gains": "#1f9e89", "no difference shown": "#7a869a"}
MODES = {"user": "#3f8fd2", "kernel": "#e07b39", "interrupts": "#c561a6", "stolen": "#7a869a"}

_ROW = 46
_POINT = 42
FEW_TICKS = alt.Axis(tickCount=8)


def colours(platforms: Sequence[str]) -> dict[str, str]:
    """A colour for each platform, the same in every chart and table of the report."""
    return {name: PALETTE[place % len(PALETTE)] for place, name in enumerate(platforms)}


def costs(report: Report, estimates: Sequence[Estimate]) -> alt.Chart | alt.LayerChart:
    """Forest plot: every cost with its interval, against a line where nothing is lost.

    In per cent; with a loss of tenfold among them, how many times worse, logarithmic: beside 4,000 %
    nothing else would be seen, and ten times the time is as bad as a tenth of the rate.
    """
    rows = [_cost_row(report, estimate) for estimate in estimates if estimate.cost is not None]
    tenfold = any(row["times_high"] >= 10 for row in rows)
    prefix, nothing = ("times_", 1) if tenfold else ("", 0)
    order = [row["name"] for row in rows]
    lines = 2 if len(report.cells()) > 1 else 1
    y = alt.Y("name:N", sort=order, title=None, axis=name_axis(lines))
    colour = alt.Color(
        "verdict:N",
        scale=alt.Scale(domain=list(TONES), range=list(TONES.values())),
        legend=alt.Legend(title=None, orient="top"),
    )
    tips = [alt.Tooltip(f"{name}:N") for name in ("name", "change", "interval", "blocks")]
    base = alt.Chart(alt.InlineData(values=rows)).encode(y=y, color=colour, tooltip=tips)
    axis = alt.Axis(
        title="times worse (logarithmic)" if tenfold else "cost, % (right of 0 is worse)",
        tickCount=8,
        **({"values": _marks(rows), "format": "~g"} if tenfold else {}),
    )
    scale = alt.Scale(type="log", nice=False, padding=16) if tenfold else alt.Scale()
    zero = alt.Chart(alt.InlineData(values=[{"zero": nothing}])).mark_rule(
        strokeDash=[4, 3], size=1.5
    )
    return sized(
        alt.layer(
            zero.encode(x=alt.X("zero:Q", axis=axis, scale=scale)),
            base.mark_rule(size=3).encode(
                x=alt.X(f"{prefix}low:Q", axis=axis, scale=scale), x2=f"{prefix}high:Q"
            ),
            base.mark_point(filled=True, size=130).encode(
                x=alt.X(f"{prefix}cost:Q", scale=scale),
                shape=alt.Shape(
                    "verdict:N",
                    legend=alt.Legend(title=None, orient="top"),
                    scale=alt.Scale(
                        domain=list(TONES), range=["triangle-right", "triangle-left", "circle"]
                    ),
                ),
            ),
        ),
        height=36 * len(rows),
    )


def trials(
    points: Sequence[Point], estimates: Sequence[Estimate], report: Report, unit: str, title: str
) -> alt.LayerChart:
    """Every trial as a point, in the order of the blocks; the mean with its interval above them."""
    divisor, name = units.scale(median(point.value for point in points), unit)
    shown = [
        platform for platform in report.platforms if any(p.platform == platform for p in points)
    ]
    blocks = {block: place for place, block in enumerate(sorted({p.block for p in points}))}
    rows = [
        {
            "platform": point.platform,
            "value": point.value / divisor,
            "order": blocks[point.block],
            "trial": point.trial,
            "block": point.block,
            "boot": point.boot,
            "kind": point.kind,
        }
        for point in points
    ]
    means = [_mean_row(report, estimate, divisor) for estimate in estimates]
    y = alt.Y(
        "platform:N",
        sort=shown,
        title=None,
        axis=name_axis(),
        scale=alt.Scale(paddingInner=0.12, paddingOuter=0.06),
    )
    x = alt.X(
        "value:Q",
        title=f"{title}, {name}" if name else title,
        scale=alt.Scale(zero=False, nice=True, padding=8),
        axis=FEW_TICKS,
    )
    colour = _platform_colour(report, shown)
    dots = (
        alt.Chart(alt.InlineData(values=rows))
        .mark_point(size=_POINT)
        .encode(
            x=x,
            y=y,
            yOffset=alt.YOffset("order:Q", scale=alt.Scale(domain=_spread(len(blocks)))),
            color=colour,
            # Scales in place of conditions, which Altair takes ten times as long to read.
            fill=alt.Fill("platform:N", scale=_platform_scale(report, shown), legend=None),
            fillOpacity=alt.FillOpacity("kind:O", scale=_kind_scale(0.75, 0.0), legend=None),
            strokeOpacity=alt.StrokeOpacity("kind:O", scale=_kind_scale(0.75, 0.6), legend=None),
            tooltip=[
                alt.Tooltip("platform:N"),
                alt.Tooltip("value:Q", format=".4~g"),
                *(alt.Tooltip(f"{field}:N") for field in ("trial", "block", "boot", "kind")),
            ],
        )
    )
    interval = alt.Chart(alt.InlineData(values=means)).encode(y=y)
    tips = [alt.Tooltip("platform:N")]
    tips += [alt.Tooltip(f"{field}:Q", format=".4~g") for field in ("mean", "low", "high")]
    return sized(
        alt.layer(
            dots,
            interval.mark_rule(size=3, opacity=0.95).encode(x="low:Q", x2="high:Q", tooltip=tips),
            interval.mark_tick(thickness=3, size=22).encode(x="mean:Q", tooltip=tips),
        ),
        height=_ROW * len(shown),
    )


def series(points: Sequence[SeriesPoint], report: Report) -> alt.Chart:
    """What happened within each trial: one thin line each. Not replicates, and no interval."""
    divisor, name = units.scale(median(point.value for point in points), f"b/s{_mark(report)}")
    shown = [
        platform for platform in report.platforms if any(p.platform == platform for p in points)
    ]
    rows = [
        {
            "platform": point.platform,
            "line": f"{point.trial} {point.task}",
            "trial": point.trial,
            "t": point.t_s,
            "value": point.value / divisor,
        }
        for point in points
    ]
    return sized(
        alt.Chart(alt.InlineData(values=rows))
        .mark_line(size=1.3, opacity=0.55)
        .encode(
            x=alt.X(
                "t:Q",
                title=f"seconds since the task began to count{_mark(report)}",
                axis=FEW_TICKS,
            ),
            y=alt.Y(
                "value:Q", title=f"{verdict.word(points[0].what.removesuffix('_bps'))}, {name}"
            ),
            color=_platform_colour(report, shown, legend=True),
            detail="line:N",
            tooltip=[
                alt.Tooltip("platform:N"),
                alt.Tooltip("trial:N"),
                alt.Tooltip("t:Q", format=".3~g", title=f"s{_mark(report)}"),
                alt.Tooltip("value:Q", format=".4~g", title=name),
            ],
        ),
        height=240,
    )


def ecdf(points: Sequence[EcdfPoint], report: Report) -> alt.Chart:
    """Which share of the round trips took at most how long; logarithmic, so that tails are seen."""
    shown = [
        platform for platform in report.platforms if any(p.platform == platform for p in points)
    ]
    divisor, name = units.scale(median(point.value_s for point in points), f"s{_mark(report)}")
    rows = [
        {"platform": p.platform, "value": p.value_s / divisor, "share": p.share} for p in points
    ]
    return sized(
        alt.Chart(alt.InlineData(values=rows))
        .mark_line(interpolate="step-after", size=2)
        .encode(
            x=alt.X(
                "value:Q",
                title=f"round-trip time, {name} (logarithmic)",
                scale=alt.Scale(type="log", nice=False),
            ),
            y=alt.Y("share:Q", title="share of round trips", axis=alt.Axis(format="%")),
            color=_platform_colour(report, shown, legend=True),
            tooltip=[
                alt.Tooltip("platform:N"),
                alt.Tooltip("value:Q", format=".4~g", title=name),
                alt.Tooltip("share:Q", format=".2%"),
            ],
        ),
        height=260,
    )


def polls(found: Sequence[Polls], report: Report) -> alt.Chart:
    """Which share of the polls found how many packets."""
    shown = [name for name in report.platforms if any(one.platform == name for one in found)]
    rows = [
        {"platform": p.platform, "packets": p.packets, "share": p.share, "count": p.count}
        for p in found
    ]
    return sized(
        alt.Chart(alt.InlineData(values=rows))
        .mark_bar(opacity=0.75)
        .encode(
            x=alt.X("packets:O", title="packets of a poll"),
            y=alt.Y("share:Q", title="share of polls", axis=alt.Axis(format="%"), stack=None),
            color=_platform_colour(report, shown, legend=True),
            tooltip=[
                alt.Tooltip("platform:N"),
                alt.Tooltip("packets:O"),
                alt.Tooltip("share:Q", format=".2%"),
                alt.Tooltip("count:Q", title="polls"),
            ],
        ),
        height=220,
    )


def cpu(times: Sequence[CpuTime], report: Report) -> alt.Chart:
    """CPU time of a trial by what it was spent on, seen from each place that was read."""
    order_of = list(report.platforms)
    rows = [
        {
            "name": f"{time.platform} · {time.seen}",
            "mode": time.mode,
            "place": place,
            "seconds": time.seconds_s,
        }
        for time in sorted(times, key=lambda t: order_of.index(t.platform))
        for place, mode in enumerate(MODES)
        if mode == time.mode
    ]
    order = list(dict.fromkeys(row["name"] for row in rows))
    return sized(
        alt.Chart(alt.InlineData(values=rows))
        .mark_bar(height=18, cornerRadius=1)
        .encode(
            x=alt.X("seconds:Q", title=f"CPU seconds a trial{_mark(report)}", axis=FEW_TICKS),
            y=alt.Y("name:N", sort=order, title=None, axis=name_axis(2)),
            color=alt.Color(
                "mode:N",
                scale=alt.Scale(domain=list(MODES), range=list(MODES.values())),
                legend=alt.Legend(title=None, orient="top"),
            ),
            order="place:Q",
            tooltip=[
                alt.Tooltip("name:N"),
                alt.Tooltip("mode:N"),
                alt.Tooltip("seconds:Q", format=".3~g", title=f"s{_mark(report)}"),
            ],
        ),
        height=36 * len(order),
    )


def totals(bars: Sequence[Bar]) -> Any:
    """Totals in parts of the baseline's, a pane for each workload; crosses are what others found."""
    workloads = list(dict.fromkeys(bar.workload for bar in bars))
    panes = [_total_pane(name, [bar for bar in bars if bar.workload == name]) for name in workloads]
    return alt.vconcat(*panes, spacing=18)


PARTS = {"elapsed": "#3f8fd2", "walks": "#e07b39"}


def _total_pane(workload: str, bars: Sequence[Bar]) -> Any:
    order = list(dict.fromkeys(bar.name for bar in bars))
    rows = [
        {"name": bar.name, "part": bar.part, "ratio": bar.ratio, "place": place}
        for bar in bars
        for place, part in enumerate(PARTS)
        if part == bar.part
    ]
    theirs = [
        {"name": bar.name, "part": bar.part, "ratio": bar.ratio}
        for bar in bars
        if bar.part == "published"
    ]
    y = alt.Y("name:N", sort=order, title=None, axis=name_axis(1))
    x = alt.X("ratio:Q", title=f"{workload}, native is 1{VIRTUAL}", stack="zero", axis=FEW_TICKS)
    tips = [
        *(alt.Tooltip(f"{field}:N") for field in ("name", "part")),
        alt.Tooltip("ratio:Q", format=".4~g"),
    ]
    ours = (
        alt.Chart(alt.InlineData(values=rows))
        .mark_bar(height=16, cornerRadius=1)
        .encode(
            x=x,
            y=y,
            color=alt.Color(
                "part:N",
                scale=alt.Scale(domain=list(PARTS), range=list(PARTS.values())),
                legend=alt.Legend(title=None, orient="top"),
            ),
            order="place:Q",
            tooltip=tips,
        )
    )
    one = alt.Chart(alt.InlineData(values=[{"ratio": 1}])).mark_rule(strokeDash=[4, 3], size=1.5)
    layers = [ours, one.encode(x=alt.X("ratio:Q"))]
    if theirs:
        points = alt.Chart(alt.InlineData(values=theirs))
        layers.append(
            points.mark_point(size=80, strokeWidth=2.5, shape="cross", color="#d1495b").encode(
                x=alt.X("ratio:Q"), y=y, tooltip=tips
            )
        )
    return alt.layer(*layers).properties(width=520, height=30 * len(order))


def parts(found: Sequence[Part], unit: str, report: Report) -> alt.Chart:
    """Counts of a trial in their parts, a bar for each platform in a cell."""
    several = len({one.platform for one in found}) > 1
    rows = [
        {
            "name": f"{one.cell} · {one.platform}" if several else one.cell,
            "part": one.part,
            "count": one.count,
            "place": place,
        }
        for place, one in enumerate(found)
    ]
    order = list(dict.fromkeys(row["name"] for row in rows))
    named = list(dict.fromkeys(one.part for one in found))
    return sized(
        alt.Chart(alt.InlineData(values=rows))
        .mark_bar(height=18, cornerRadius=1)
        .encode(
            x=alt.X("count:Q", title=f"{unit}{_mark(report)}", axis=FEW_TICKS),
            y=alt.Y("name:N", sort=order, title=None, axis=name_axis(2 if several else 1)),
            color=alt.Color(
                "part:N",
                scale=alt.Scale(
                    domain=named, range=[PALETTE[i % len(PALETTE)] for i in range(len(named))]
                ),
                legend=alt.Legend(title=None, orient="top", columns=4),
            ),
            order="place:Q",
            tooltip=[
                *(alt.Tooltip(f"{field}:N") for field in ("name", "part")),
                alt.Tooltip("count:Q", format=",.1~f"),
            ],
        ),
        height=36 * len(order),
    )


def unchecked() -> AbstractContextManager[None]:
    """Leaves out Altair's check of every part against Vega-Lite's schema, which takes most of the
    time of a report. The tests draw every chart with and without it.
    """
    return schemapi.debug_mode(False)


def specification(chart: alt.Chart | alt.LayerChart) -> dict[str, Any]:
    """As Vega-Lite's JSON, without Altair's own theme."""
    with alt.theme.enable("none"):
        made: dict[str, Any] = chart.to_dict(validate=schemapi.DEBUG_MODE)
    made.pop("config", None)
    return made


def config(foreground: str, faint: str, background: str) -> dict[str, Any]:
    """Vega's config for a page in these colours."""
    text = {"labelColor": foreground, "titleColor": foreground}
    return {
        "background": background,
        "font": "system-ui, sans-serif",
        "view": {"stroke": None},
        "axis": text
        | {
            "gridColor": faint,
            "domainColor": faint,
            "tickColor": faint,
            "labelFontSize": 12,
            "titleFontSize": 12,
            "titleFontWeight": "normal",
            "titlePadding": 8,
        },
        "axisY": {"labelLimit": 240},
        "legend": text | {"labelFontSize": 12, "orient": "top", "title": None},
        "rule": {"color": foreground},
        "tick": {"color": foreground},
    }


# --- parts


def _mark(report: Report) -> str:
    return mark_of(report.summary.clock)


def _cost_row(report: Report, estimate: Estimate) -> dict[str, Any]:
    change, interval = verdict.cost_text(estimate)
    cost = estimate.cost or 0.0
    cell = report.wording.label(estimate.cell)
    platform = report.wording.platform(estimate.platform, estimate.cell)
    ends = {
        "cost": cost,
        "low": cost if estimate.cost_low is None else estimate.cost_low,
        "high": cost if estimate.cost_high is None else estimate.cost_high,
    }
    return {
        "name": f"{cell} · {platform}" if len(report.cells()) > 1 else platform,
        **{name: 100 * end for name, end in ends.items()},
        **{f"times_{name}": _times_worse(end, estimate) for name, end in ends.items()},
        "verdict": estimate.verdict or "no difference shown",
        "change": f"{change} {verdict.word(estimate.response)}",
        "interval": interval or "none",
        "blocks": estimate.blocks or 0,
    }


def _marks(rows: Sequence[Mapping[str, Any]]) -> list[float]:
    """What a logarithmic axis names: tens, and 2 and 5 of each where there are few tens."""
    first = math.floor(math.log10(min(1, *(row["times_low"] for row in rows))))
    last = math.ceil(math.log10(max(row["times_high"] for row in rows)))
    steps = (1, 2, 5) if last - first <= 4 else (1,)
    return [step * 10.0**power for power in range(first, last + 1) for step in steps]


def _times_worse(cost: float, estimate: Estimate) -> float:
    """The ratio that a cost came from, the way round in which above 1 is worse."""
    return 1 + cost if estimate.better == "lower" else 1 / (1 - cost)


def _mean_row(report: Report, estimate: Estimate, divisor: float) -> dict[str, Any]:
    low, high = verdict.mean_ends(estimate)
    return {
        "platform": report.wording.platform(estimate.platform, estimate.cell),
        "mean": estimate.estimate / divisor,
        "low": (estimate.estimate if low is None else low) / divisor,
        "high": (estimate.estimate if high is None else high) / divisor,
    }


def _platform_colour(report: Report, shown: Sequence[str], legend: bool = False) -> alt.Color:
    return alt.Color(
        "platform:N",
        scale=_platform_scale(report, shown),
        legend=alt.Legend(title=None, orient="top") if legend else None,
    )


def _platform_scale(report: Report, shown: Sequence[str]) -> alt.Scale:
    chosen: Mapping[str, str] = colours(report.platforms)
    return alt.Scale(domain=list(shown), range=[chosen[platform] for platform in shown])


def _kind_scale(measured: float, warmup: float) -> alt.Scale:
    return alt.Scale(domain=["measured", "warmup"], range=[measured, warmup])


def _spread(count: int) -> list[float]:
    """A domain that leaves room between the points of neighbouring platforms."""
    room = max(count, 1) * 0.35
    return [-room, count - 1 + room]


def name_axis(lines: int = 1) -> alt.Axis:
    """Names beside their rows, long ones in two lines: the first then stands a half line higher."""
    return alt.Axis(
        labelExpr="split(datum.label, ' · ')",
        labelOffset=-7 * (lines - 1),
        ticks=False,
        domain=False,
        labelPadding=8,
        grid=False,
    )


def sized(chart: Any, height: int) -> Any:
    return chart.properties(width="container", height=height)
