"""Vega-Lite specifications (https://vega.github.io/vega-lite/docs/) as plain data, and as pictures.

A specification is a dict of what becomes JSON. The functions here give names to the parts that charts are
put together from, and no more: what Vega-Lite calls a property has its name everywhere.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Spec = dict[str, Any]
"""A part of a specification, or a whole one."""


@dataclass(frozen=True)
class Chart:
    """A chart with what says the same in words and figures.

    `head` and `rows` are its table; where that is of several charts, `table` names it instead.
    """

    id: str
    title: str
    note: str
    specification: Spec
    head: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()
    table: str = ""


_TYPES = {"Q": "quantitative", "N": "nominal", "O": "ordinal"}

LEGEND: Spec = {"title": None, "orient": "top"}
FEW_TICKS: Spec = {"tickCount": 8}

PLAIN: Spec = {"labelExpr": "format(datum.value, ',')"}
"""An axis whose numbers are written out: 100 and not 1e+2."""


def field(name: str, **properties: Any) -> Spec:
    """How a field is shown; its name ends with its type, one of `:Q`, `:N`, `:O`.

    >>> field("cost:Q", title="cost, %")
    {'field': 'cost', 'type': 'quantitative', 'title': 'cost, %'}
    """
    plain, _, kind = name.rpartition(":")
    return {"field": plain, "type": _TYPES[kind], **properties}


def until(name: str) -> Spec:
    """The other end of a range, for `x2` and `y2`: it has its scale from the first."""
    return {"field": name}


def fields(*names: str, **properties: Any) -> list[Spec]:
    """Several alike, for tooltips."""
    return [field(name, **properties) for name in names]


def named(levels: Mapping[str, Any]) -> Spec:
    """The scale of a field's levels, each with its own colour, shape or opacity."""
    return {"domain": list(levels), "range": list(levels.values())}


def colour(name: str, levels: Mapping[str, str], legend: Spec | None = LEGEND) -> Spec:
    """The colour of each level of a nominal field; without a legend where `legend` is None."""
    return field(f"{name}:N", scale=named(levels), legend=legend)


def values(rows: Sequence[Mapping[str, Any]]) -> Spec:
    """Rows as the data of a chart or of one of its marks."""
    return {"values": list(rows)}


def fine(value: float) -> float:
    """A number of one among thousands of points, finer than a screen is: the page holds them all."""
    return float(f"{value:.6g}")


def mark(kind: str, encoding: Spec, *, data: Spec | None = None, **properties: Any) -> Spec:
    """One mark for each row: of `data`, else of the chart that it is a layer of."""
    made: Spec = {"mark": {"type": kind, **properties}, "encoding": encoding}
    return made if data is None else {"data": data, **made}


def layers(*marks: Spec, data: Spec | None = None) -> Spec:
    """Marks upon each other, the first lowest; `data` is of those that have none."""
    made: Spec = {"layer": list(marks)}
    return made if data is None else {"data": data, **made}


def sized(spec: Spec, height: int, width: int | str = "container") -> Spec:
    """A chart of so many pixels, as wide as its place in the page if nothing else is said."""
    return {**spec, "width": width, "height": height}


def panes(titled: Mapping[str, Spec], *, columns: int, width: int, height: int = 210) -> Spec:
    """Charts beside each other, by their titles."""
    return {
        "concat": [
            {**sized(spec, height, width), "title": title} for title, spec in titled.items()
        ],
        "columns": columns,
    }


def config(foreground: str, faint: str, background: str) -> dict[str, Any]:
    """Vega's config for a page in these colours."""
    text = {"labelColor": foreground, "titleColor": foreground}
    return {
        "background": background,
        "padding": {"left": 5, "top": 5, "right": 10, "bottom": 5},
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
        "title": {"color": foreground},
        "rule": {"color": foreground},
        "tick": {"color": foreground},
    }


_CONFIG = config("#1c2430", "#dfe4ea", "white")
_WIDTH = 640
"""Pixels of a chart that is as wide as its place in a page."""


def svg(chart: Spec) -> str:
    """The chart as an SVG file on white, its letters those of the reader's system."""
    import vl_convert

    return str(vl_convert.vegalite_to_svg({**_in_pixels(chart), "config": _CONFIG}))


def _in_pixels(part: Any) -> Any:
    """The same with a width in pixels where a word stood: in a page it is that of its place."""
    if isinstance(part, dict):
        return {
            name: _WIDTH if name == "width" and isinstance(value, str) else _in_pixels(value)
            for name, value in part.items()
            if name != "usermeta"
        }
    return [_in_pixels(one) for one in part] if isinstance(part, list) else part
