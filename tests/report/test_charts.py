"""Every chart is sound Vega-Lite, checked against its schema, and the same without the check."""

from __future__ import annotations

from contextlib import nullcontext

import pytest

from hypertare.report import charts, html
from hypertare.report.model import Report
from hypertare.summary import Estimate


def test_what_is_drawn_is_sound(report: Report, monkeypatch: pytest.MonkeyPatch) -> None:
    quick = html.render(report)
    monkeypatch.setattr(charts, "unchecked", nullcontext)
    assert html.render(report) == quick


def test_colours_are_the_same_everywhere_and_differ(report: Report) -> None:
    colours = charts.colours(report.platforms)
    assert list(colours) == list(report.platforms)
    assert len(set(colours.values())) == len(colours)


def _rows(report: Report, estimates: list[Estimate]) -> tuple[list[dict[str, object]], str]:
    """What the costs' chart draws, and along which field."""
    made = charts.specification(charts.costs(report, estimates))
    interval = made["layer"][1]
    return made["datasets"][interval["data"]["name"]], interval["encoding"]["x"]["field"]


def test_costs_beside_a_tenfold_one_are_drawn_as_times_worse(report: Report) -> None:
    base = next(one for one in report.estimates() if one.cost is not None)
    slow = {"cost": 40.0, "cost_low": 25.0, "cost_high": 64.0, "better": "lower"}
    little = {"cost": 0.9, "cost_low": 0.8, "cost_high": 0.95, "better": "higher"}
    small, large = base.model_copy(update=little), base.model_copy(update=slow)
    rows, field = _rows(report, [small, large])
    assert field == "times_low"
    assert [row["times_cost"] for row in rows] == pytest.approx([10.0, 41.0])
    modest = base.model_copy(update=slow | {"cost": 0.4, "cost_low": 0.3, "cost_high": 0.5})
    rows, field = _rows(report, [modest])
    assert field == "low"
    assert rows[0]["cost"] == pytest.approx(40.0)
