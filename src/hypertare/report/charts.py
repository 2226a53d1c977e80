"""Charts of a report, as Vega-Lite. Each takes plain data and gives one chart.

Colours of text and axes are not set here: the page sets them for light and dark.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from hypertare.base import figures
from hypertare.base.figures import word
from hypertare.base.variables import VIRTUAL
from hypertare.report import verdict
from hypertare.report.colours import MODES, PARTS, TONES, of_levels
from hypertare.report.every_trial import Column, EveryTrial
from hypertare.report.model import CpuTime, EcdfPoint, Point, Polls, Report, SeriesPoint
from hypertare.report.tables.ratios import PUBLISHED, Bar, published_table, setting
from hypertare.report.translation import MeanCount
from hypertare.report.vega import (
    FEW_TICKS,
    LEGEND,
    PLAIN,
    Chart,
    Spec,
    colour,
    field,
    fields,
    fine,
    layers,
    mark,
    named,
    sized,
    until,
    values,
)
from hypertare.runs.summary import Estimate, Published
from hypertare.workloads.responses import mark_of

_SHAPES = {
    "costs": "triangle-right",
    "gains": "triangle-left",
    "no difference shown": "circle",
    "undecided": "diamond",
}

_ROW = 46
_POINT = 42


def costs(report: Report, estimates: Sequence[Estimate]) -> Spec:
    """Forest plot: every cost with its interval, against a line where nothing is lost.

    In per cent; with a loss of tenfold among them, how many times worse, logarithmic: beside 4,000 %
    nothing else would be seen, and ten times the time is as bad as a tenth of the rate.
    """
    rows = [_cost_row(report, estimate) for estimate in estimates if estimate.cost is not None]
    tenfold = any(row["times_high"] >= 10 for row in rows)
    there = {row["verdict"] for row in rows}
    tones = {name: shade for name, shade in TONES.items() if name in there}
    shapes = {name: shape for name, shape in _SHAPES.items() if name in there}
    prefix, nothing = ("times_", 1) if tenfold else ("", 0)
    lines = 2 if len(report.cells) > 1 else 1
    axis = {
        "title": "times worse (logarithmic)" if tenfold else "cost, % (right of 0 is worse)",
        "tickCount": 8,
        **({"values": _marks(rows), **PLAIN} if tenfold else {}),
    }
    scale = {"type": "log", "nice": False, "padding": 16} if tenfold else {}
    common = {
        "y": field("name:N", sort=[row["name"] for row in rows], title=None, axis=name_axis(lines)),
        "color": colour("verdict", tones),
        "tooltip": fields("name:N", "change:N", "interval:N", "blocks:N"),
    }
    drawn = layers(
        mark(
            "rule",
            {"x": field("zero:Q", axis=axis, scale=scale)},
            data=values([{"zero": nothing}]),
            strokeDash=[4, 3],
            size=1.5,
        ),
        mark(
            "rule",
            {
                **common,
                "x": field(f"{prefix}low:Q", axis=axis, scale=scale),
                "x2": until(f"{prefix}high"),
            },
            size=3,
        ),
        mark(
            "point",
            {
                **common,
                "x": field(f"{prefix}cost:Q", scale=scale),
                "shape": field("verdict:N", scale=named(shapes), legend=LEGEND),
            },
            filled=True,
            size=130,
        ),
        data=values(rows),
    )
    return sized(drawn, height=36 * len(rows))


def trials(
    key: str,
    every: EveryTrial,
    column: Column,
    estimates: Sequence[Estimate],
    report: Report,
) -> Spec:
    """Every trial as a point, in the order of the blocks; the mean with its interval above them.

    Its points are not in it: the page makes them of the cell's trials, which it has once under `key`.
    """
    divisor, unit = column.scale
    drawn = zip(every.trials, column.values, strict=True)
    of_platform = _colours_of((point for point, value in drawn if value is not None), report)
    # Room between the points of neighbouring platforms.
    room = max(len(every.blocks), 1) * 0.35
    y = field(
        "platform:N",
        sort=list(of_platform),
        title=None,
        axis=name_axis(),
        scale={"paddingInner": 0.12, "paddingOuter": 0.06},
    )
    dots = {
        "x": field(
            "value:Q",
            title=f"{column.name}, {unit}" if unit else column.name,
            scale=_from_nought(column.values),
            axis=FEW_TICKS,
        ),
        "y": y,
        "yOffset": field("order:Q", scale={"domain": [-room, len(every.blocks) - 1 + room]}),
        "color": colour("platform", of_platform, None),
        "fill": colour("platform", of_platform, None),
        "fillOpacity": _by_kind(measured=0.75, warmup=0.0),
        "strokeOpacity": _by_kind(measured=0.75, warmup=0.6),
        "tooltip": [
            field("platform:N"),
            field("value:Q", format=",.4~r"),
            *fields("trial:N", "block:N", "boot:N", "kind:N"),
        ],
    }
    tips = [field("platform:N"), *fields("mean:Q", "low:Q", "high:Q", format=",.4~r")]
    span = {"x": field("low:Q"), "x2": until("high"), "y": y, "tooltip": tips}
    layered = layers(
        mark("point", dots, data={"name": "trials"}, size=_POINT),
        mark("rule", span, size=3, opacity=0.95),
        mark("tick", {"x": field("mean:Q"), "y": y, "tooltip": tips}, thickness=3, size=22),
        data=values(
            [
                {
                    "platform": report.wording.platform(one.platform, one.cell),
                    **verdict.mean_row(one, divisor),
                }
                for one in estimates
            ]
        ),
    )
    points = {"usermeta": {"trials": {"of": key, "response": column.response.name}}}
    return points | sized(layered, height=_ROW * len(of_platform))


def series(points: Sequence[SeriesPoint], report: Report) -> Spec:
    """What happened within each trial: one thin line each. Not replicates, and no interval."""
    divisor, name = figures.axis_scale((point.value for point in points), f"b/s{_mark(report)}")
    lines: dict[str, Spec] = {}
    for point in points:
        key = f"{point.trial} {point.task}"
        start = {"platform": point.platform, "line": key, "trial": point.trial}
        line = lines.setdefault(key, {**start, "t": [], "value": []})
        line["t"].append(fine(point.t_s))
        line["value"].append(fine(point.value / divisor))
    encoding = {
        "x": field(
            "t:Q", title=f"seconds since the task began to count{_mark(report)}", axis=FEW_TICKS
        ),
        "y": field("value:Q", title=f"{word(points[0].what.removesuffix('_bps'))}, {name}"),
        "color": colour("platform", _colours_of(points, report)),
        "detail": field("line:N"),
        "tooltip": [
            *fields("platform:N", "trial:N"),
            field("t:Q", format=",.3~r", title=f"s{_mark(report)}"),
            field("value:Q", format=",.4~r", title=name),
        ],
    }
    # A row a line, which is a fifth of a row a point; Vega-Lite makes points of it.
    drawn = mark("line", encoding, data=values(list(lines.values())), size=1.3, opacity=0.55)
    return sized({**drawn, "transform": [{"flatten": ["t", "value"]}]}, height=240)


def ecdf(points: Sequence[EcdfPoint], report: Report) -> Spec:
    """Which share of the round trips took at most how long; logarithmic, so that tails are seen."""
    times = [point.value_s for point in points]
    divisor, name = figures.axis_scale(times, f"s{_mark(report)}", logarithmic=True)
    rows = [
        {"platform": p.platform, "value": p.value_s / divisor, "share": p.share} for p in points
    ]
    encoding = {
        "x": field(
            "value:Q",
            title=f"round-trip time, {name} (logarithmic)",
            scale={"type": "log", "nice": False},
            axis=PLAIN,
        ),
        "y": field("share:Q", title="share of round trips", axis={"format": "%"}),
        "color": colour("platform", _colours_of(points, report)),
        "tooltip": [
            field("platform:N"),
            field("value:Q", format=",.4~r", title=name),
            field("share:Q", format=".2%"),
        ],
    }
    drawn = mark("line", encoding, data=values(rows), interpolate="step-after", size=2)
    return sized(drawn, height=260)


def polls(found: Sequence[Polls], report: Report) -> Spec:
    """Which share of the polls found how many packets."""
    rows = [
        {"platform": p.platform, "packets": p.packets, "share": p.share, "count": p.count}
        for p in found
    ]
    encoding = {
        "x": field("packets:O", title="packets of a poll"),
        "y": field("share:Q", title="share of polls", axis={"format": "%"}, stack=None),
        "color": colour("platform", _colours_of(found, report)),
        "tooltip": [
            *fields("platform:N", "packets:O"),
            field("share:Q", format=".2%"),
            field("count:Q", title="polls"),
        ],
    }
    return sized(mark("bar", encoding, data=values(rows), opacity=0.75), height=220)


def cpu(times: Sequence[CpuTime], report: Report) -> Spec:
    """CPU time of a trial by what it was spent on, seen from each place that was read."""
    order_of, modes = list(report.platforms), list(MODES)
    bars: defaultdict[tuple[str, str], float] = defaultdict(float)
    for time in times:
        bars[time.platform, time.seen] += time.seconds_s
    divisor, unit = figures.axis_scale(bars.values(), f"s{_mark(report)}")
    rows = [
        {
            "name": f"{time.platform} · {time.seen}",
            "mode": time.mode,
            "place": modes.index(time.mode),
            "time": time.seconds_s / divisor,
        }
        for time in sorted(times, key=lambda t: order_of.index(t.platform))
    ]
    x = field("time:Q", title=f"CPU time of a trial, {unit}", axis=FEW_TICKS)
    tips = [*fields("name:N", "mode:N"), field("time:Q", format=",.3~r", title=unit)]
    return _bars(rows, x, colour("mode", MODES), tips, lines=2)


def totals(bars: Sequence[Bar]) -> Spec:
    """Totals in parts of the baseline's, a pane for each workload; crosses are what others found."""
    workloads = list(dict.fromkeys(bar.workload for bar in bars))
    panes = [_total_pane(name, [bar for bar in bars if bar.workload == name]) for name in workloads]
    return {"vconcat": panes, "spacing": 18}


def _total_pane(workload: str, bars: Sequence[Bar]) -> Spec:
    order = list(dict.fromkeys(bar.name for bar in bars))
    places = {part: place for place, part in enumerate(PARTS)}
    rows = [
        {"name": bar.name, "part": bar.part, "ratio": bar.ratio, "place": places[bar.part]}
        for bar in bars
        if bar.part in places
    ]
    theirs = [
        {"name": bar.name, "part": bar.part, "ratio": bar.ratio}
        for bar in bars
        if bar.part == "published"
    ]
    common = {
        "y": field("name:N", sort=order, title=None, axis=name_axis(1)),
        "tooltip": [*fields("name:N", "part:N"), field("ratio:Q", format=",.4~r")],
    }
    ours = {
        **common,
        "x": field(
            "ratio:Q", title=f"{workload}, native is 1{VIRTUAL}", stack="zero", axis=FEW_TICKS
        ),
        "color": colour("part", PARTS),
        "order": field("place:Q"),
    }
    at = {"x": field("ratio:Q")}
    marks = [
        mark("bar", ours, data=values(rows), height=16, cornerRadius=1),
        mark("rule", at, data=values([{"ratio": 1}]), strokeDash=[4, 3], size=1.5),
    ]
    if theirs:
        cross = {"size": 80, "strokeWidth": 2.5, "shape": "cross", "color": "#d1495b"}
        marks.append(mark("point", {**common, **at}, data=values(theirs), **cross))
    return sized(layers(*marks), height=30 * len(order), width=520)


def published(found: Sequence[Published], report: Report) -> Chart | None:
    """Ours as points with their intervals, theirs as crosses, in parts of the baseline's: a pane for each
    workload and response.
    """
    rows = published_table(found).rows
    if not rows:
        return None
    panes: dict[tuple[str, str], list[Published]] = {}
    for one in found:
        if one.ratio is not None:
            panes.setdefault((str(one.cell["workload"]), one.response), []).append(one)
    drawn = [
        _published_pane(f"{workload}, {word(response)}, native is 1{_mark(report)}", shown)
        for (workload, response), shown in panes.items()
    ]
    return Chart(
        "published-plot",
        PUBLISHED.name,
        PUBLISHED.note,
        {"vconcat": drawn, "spacing": 18},
        tuple(column.name for column in PUBLISHED.columns),
        tuple(row.cells for row in rows),
    )


def _published_pane(title: str, found: Sequence[Published]) -> Spec:
    rows = [
        {"name": setting(one), "whose": whose, "ratio": ratio, "low": low, "high": high}
        for one in found
        for whose, ratio, low, high in (
            (
                "here",
                one.ratio,
                one.ratio if one.ratio_low is None else one.ratio_low,
                one.ratio if one.ratio_high is None else one.ratio_high,
            ),
            ("published", one.published, one.published, one.published),
        )
    ]
    order = list(dict.fromkeys(row["name"] for row in rows))
    x = {"title": title, "scale": {"zero": False}, "axis": FEW_TICKS}
    both = {
        "y": field("name:N", sort=order, title=None, axis=name_axis(1)),
        "color": colour("whose", {"here": "#2b6cb0", "published": "#d1495b"}),
        "tooltip": [
            *fields("name:N", "whose:N"),
            *fields("ratio:Q", "low:Q", "high:Q", format=",.4~r"),
        ],
    }
    shape = field("whose:N", scale=named({"here": "circle", "published": "cross"}), legend=LEGEND)
    drawn = layers(
        mark("rule", {**both, "x": field("low:Q", **x), "x2": until("high")}, size=1.5),
        mark(
            "point",
            {**both, "x": field("ratio:Q", **x), "shape": shape},
            size=70,
            strokeWidth=2,
            opacity=1,
        ),
        data=values(rows),
    )
    return sized(drawn, height=22 * len(order), width=520)


def parts(found: Sequence[MeanCount], unit: str, report: Report) -> Spec:
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
    of_part = of_levels(list(dict.fromkeys(one.part for one in found)))
    x = field("count:Q", title=f"{unit}{_mark(report)}", axis=FEW_TICKS)
    shades = colour("part", of_part, {**LEGEND, "columns": 4})
    tips = [*fields("name:N", "part:N"), field("count:Q", format=",.1~f")]
    return _bars(rows, x, shades, tips, lines=2 if several else 1)


def _bars(
    rows: Sequence[Mapping[str, Any]], x: Spec, shades: Spec, tips: Sequence[Spec], *, lines: int
) -> Spec:
    """A bar for each name, of parts in the order of their places."""
    order = list(dict.fromkeys(row["name"] for row in rows))
    encoding = {
        "x": x,
        "y": field("name:N", sort=order, title=None, axis=name_axis(lines)),
        "color": shades,
        "order": field("place:Q"),
        "tooltip": tips,
    }
    return sized(
        mark("bar", encoding, data=values(rows), height=18, cornerRadius=1), height=36 * len(order)
    )


# --- parts


def _mark(report: Report) -> str:
    return mark_of(report.summary.clock)


def _cost_row(report: Report, estimate: Estimate) -> dict[str, Any]:
    change, interval = verdict.cost_text(estimate, report.wording)
    cost = estimate.cost or 0.0
    cell = report.wording.label(estimate.cell)
    platform = report.wording.platform(estimate.platform, estimate.cell)
    ends = {
        "cost": cost,
        "low": cost if estimate.cost_low is None else estimate.cost_low,
        "high": cost if estimate.cost_high is None else estimate.cost_high,
    }
    # An interval from two trials may be so wide that its end is a loss of everything.
    times = {
        name: min(verdict.times_worse(end, estimate.better), _FARTHEST)
        for name, end in ends.items()
    }
    return {
        "name": f"{cell} · {platform}" if len(report.cells) > 1 else platform,
        **{name: 100 * end for name, end in ends.items()},
        **{f"times_{name}": max(ratio, 1 / _FARTHEST) for name, ratio in times.items()},
        "verdict": estimate.verdict or "undecided",
        "change": f"{change} {word(estimate.response)}",
        "interval": interval or "none",
        "blocks": estimate.blocks or 0,
    }


def _marks(rows: Sequence[Mapping[str, Any]]) -> list[float]:
    """Returns the labelled values of a logarithmic axis: powers of ten, with 2 and 5 times each if they are
    few.
    """
    first = math.floor(math.log10(min(1, *(row["times_low"] for row in rows))))
    last = math.ceil(math.log10(max(row["times_high"] for row in rows)))
    steps = (1, 2, 5) if last - first <= 4 else (1,)
    return [step * 10.0**power for power in range(first, last + 1) for step in steps]


_FARTHEST = 1e6
"""Largest ratio that is drawn, either way: the end of an interval that lies farther is drawn here."""


def _colours_of(
    found: Iterable[Point | SeriesPoint | EcdfPoint | Polls], report: Report
) -> dict[str, str]:
    """The platforms that something was found of, in order of display, in their colours."""
    there = {one.platform for one in found}
    return {name: shade for name, shade in report.colours.items() if name in there}


def _by_kind(**opacity: float) -> Spec:
    return field("kind:O", scale=named(opacity), legend=None)


def _from_nought(found: Sequence[float | None]) -> Spec:
    """The scale of a measure: from 0 on where values come near it, for no axis goes below."""
    there = [value for value in found if value is not None]
    # An axis of one value alone would name it to its last digit.
    if 0 <= min(there) < max(there) / 2 or min(there) == max(there) > 0:
        return {"zero": True, "nice": True}
    return {"zero": False, "nice": True, "padding": 8}


def name_axis(lines: int = 1) -> Spec:
    """Names beside their rows, long ones in two lines: the first then stands a half line higher."""
    return {
        "labelExpr": "split(datum.label, ' · ')",
        "labelOffset": -7 * (lines - 1),
        "ticks": False,
        "domain": False,
        "labelPadding": 8,
        "grid": False,
    }


def by_facet(rows: Sequence[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """The rows of each pane."""
    panes: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        panes.setdefault(row["facet"], []).append(row)
    return panes
