"""Surfaces and interactions: charts that are sound, beside tables of the same figures."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from hypertare.design.trials import FinishedTrial
from hypertare.report import plots
from hypertare.report.vega import Chart
from hypertare.report.verdict import Wording
from tests.findings.test_many_cells import EFFICIENCY, made
from tests.made_trials import GOODPUT
from tests.report.vega_lite import check

PLOT = {
    "title": "Goodput",
    "workload": "tcp",
    "x": "message",
    "lines": "mtu",
    "y": "goodput",
    "shape": "surface",
}


def drawn(trials: list[FinishedTrial] | None = None, **changed: Any) -> list[Chart]:
    report = SimpleNamespace(
        meta=SimpleNamespace(
            settings={"plots": [{**PLOT, **changed}]}, confidence=0.95, baseline="native"
        ),
        wording=Wording({}, frozenset(), 1, "wall", {}),
        trials=made(mtus=(500, 1500)) if trials is None else trials,
        platforms=("native", "guest"),
        responses=lambda _: {"goodput": GOODPUT},
    )
    return plots.drawn(report)  # type: ignore[arg-type]


@pytest.mark.parametrize("shape", ["surface", "interaction"])
@pytest.mark.parametrize("of", ["value", "efficiency"])
def test_it_is_vega_lite_with_a_pane_for_each_platform(shape: str, of: str) -> None:
    (one,) = drawn(shape=shape, of=of)
    check(one.specification)
    panes = [pane["title"] for pane in one.specification["concat"]]
    assert panes == (["native", "guest"] if of == "value" else ["guest"])
    assert len(one.rows) == 6 * len(panes)


def test_a_field_has_its_figure_and_the_table_the_same() -> None:
    (one,) = drawn(of="efficiency")
    (pane,) = one.specification["concat"]
    rows = (
        pane["layer"][0]["data"]["values"] if "data" in pane["layer"][0] else pane["data"]["values"]
    )
    of_1500 = {row["x"]: row["mean"] for row in rows if row["line"] == "1500"}
    assert of_1500 == pytest.approx(
        {str(size): share for size, share in EFFICIENCY.items()}, rel=0.01
    )
    assert all(row["low"] < row["mean"] < row["high"] for row in rows)
    # Letters on a bright ground are dark.
    assert {row["bright"] for row in rows} == {True, False}
    assert one.head == ("mtu", "message", "platform", "efficiency in goodput", "interval", "cells")
    assert one.rows[0][:3] == ("500", "64", "guest") and one.rows[0][3].startswith("0.45")


def test_all_panes_have_the_same_colours() -> None:
    (one,) = drawn()
    domains = [
        pane["layer"][0]["encoding"]["color"]["scale"]["domain"]
        for pane in one.specification["concat"]
    ]
    assert domains[0] == domains[1]


def test_levels_stand_in_the_order_of_what_they_mean() -> None:
    (one,) = drawn()
    encoding = one.specification["concat"][0]["layer"][0]["encoding"]
    assert encoding["x"]["sort"] == ["64", "512", "8192"]
    assert encoding["y"]["sort"] == ["1500", "500"]


def test_other_factors_are_averaged() -> None:
    """Of a factor that the plot does not name the mean is geometric, over its levels."""
    (over,) = drawn(x="message", lines="workload", of="efficiency")
    assert {row[-1] for row in over.rows} == {"2"}
    mean = float(over.rows[0][3])
    assert mean == pytest.approx((0.5 * 0.45) ** 0.5, rel=0.01)


def test_a_cell_without_a_trial_is_not_drawn() -> None:
    (one,) = drawn(made(mtus=(500, 1500), lost=[(64, boot) for boot in range(4)]), of="efficiency")
    assert len(one.rows) == 4
    assert drawn([]) == []


def test_an_interaction_is_logarithmic_where_effects_are_factors() -> None:
    (one,) = drawn(shape="interaction")
    scale = one.specification["concat"][0]["layer"][0]["encoding"]["y"]["scale"]
    assert scale["type"] == "log"
    assert "Parallel lines" in one.note
