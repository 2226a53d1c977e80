"""Charts as pictures, for documents that run no scripts."""

from __future__ import annotations

from typing import Any

from hypertare.report import vega
from hypertare.report.vega import Spec

_CONFIG = vega.config("#1c2430", "#dfe4ea", "white")
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
