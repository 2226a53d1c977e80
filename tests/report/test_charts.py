"""Every chart is sound Vega-Lite, checked against its schema, and the same without the check."""

from __future__ import annotations

from contextlib import nullcontext

import pytest

from hypertare.report import charts, html
from hypertare.report.model import Report


def test_what_is_drawn_is_sound(report: Report, monkeypatch: pytest.MonkeyPatch) -> None:
    quick = html.render(report)
    monkeypatch.setattr(charts, "unchecked", nullcontext)
    assert html.render(report) == quick


def test_colours_are_the_same_everywhere_and_differ(report: Report) -> None:
    colours = charts.colours(report.platforms)
    assert list(colours) == list(report.platforms)
    assert len(set(colours.values())) == len(colours)
