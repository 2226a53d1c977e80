"""Every chart is sound Vega-Lite by its schema, and draws what was found."""

from __future__ import annotations

from copy import deepcopy
from pathlib import Path
from typing import Any, get_args

import pytest
from jsonschema import ValidationError

from hypertare.platforms.registry import KINDS
from hypertare.report import charts, colours, html
from hypertare.report.model import Report
from hypertare.runs.summary import Estimate
from hypertare.stats.practical import Verdict
from tests import factory
from tests.report.conftest import read
from tests.report.vega_lite import Spec, charts_of, check, data_of


@pytest.fixture(scope="module")
def drawn(report: Report) -> dict[str, Spec]:
    return charts_of(html.render(report))


def test_what_is_drawn_is_sound(drawn: dict[str, Spec]) -> None:
    assert len(drawn) > 20
    for chart in drawn.values():
        check(chart)


@pytest.mark.parametrize(
    ("place", "wrong"),
    [
        ((), {"heigth": 3}),
        (("layer", 0, "mark"), {"sise": 3}),
        (("layer", 0, "encoding"), {"colour": {"field": "kind"}}),
        (("layer", 0, "encoding", "x"), {"titel": "elapsed"}),
        (("layer", 0, "encoding", "x", "scale"), {"zeroo": True}),
        (("layer", 0, "encoding", "tooltip", 0), {"formt": "g"}),
        (("layer", 1, "encoding", "x"), {"type": "quantity"}),
    ],
)
def test_what_is_misspelt_is_not(
    drawn: dict[str, Spec], place: tuple[str | int, ...], wrong: dict[str, object]
) -> None:
    chart = deepcopy(drawn["cell0r0"])
    part: Any = chart
    for step in place:
        part = part[step]
    part.update(wrong)
    with pytest.raises(ValidationError):
        check(chart)


def test_the_points_of_every_response_are_made_of_one_table(report: Report) -> None:
    data = data_of(html.render(report))
    for response in ("elapsed", "peak_memory"):
        chart = next(
            one
            for one in data["charts"].values()
            if one.get("usermeta", {}).get("trials") == {"of": "cell0", "response": response}
        )
        assert chart["layer"][0]["data"] == {"name": "trials"}
        table = data["trials"]["cell0"]
        points = report.points_of("build", response)
        assert table["trial"] == [point.trial for point in points]
        platforms = [table["platforms"][place] for place in table["platform"]]
        assert platforms == [point.platform for point in points]
        assert [table["kinds"][place] for place in table["kind"]] == [p.kind for p in points]
        scale = points[0].value / table["values"][response][0]
        found = [value * scale for value in table["values"][response]]
        assert found == pytest.approx([point.value for point in points], rel=1e-5)


def test_colours_are_the_same_everywhere_and_differ(report: Report) -> None:
    assert list(report.colours) == list(report.platforms)
    assert len(set(report.colours.values())) == len(report.platforms)
    # Whatever else is weighed beside it.
    alone = colours.of_platforms({"native": "native", "guest": "guest"})
    assert alone["guest"] == colours.of_platforms({n: n for n in KINDS})["guest"]
    assert (
        alone["guest"]
        == colours.of_lines({"guest e1000": "guest"} | {"native": "native"})["guest e1000"]
    )
    every = {n: n for n in KINDS}
    others = {
        *colours.LEVELS,
        *colours.TONES.values(),
        *colours.MODES.values(),
        *colours.PARTS.values(),
    }
    assert not others & set(colours.of_platforms(every).values())
    # Levels of one platform are distinguished by colours of no platform.
    weights = colours.of_lines({"1": "native", "60": "native"})
    assert len(set(weights.values())) == 2 and set(weights.values()) <= set(colours.LEVELS)


@pytest.mark.parametrize("verdict", get_args(Verdict))
def test_a_cost_of_every_verdict_is_drawn(report: Report, verdict: Verdict) -> None:
    """What has no colour or no shape in a scale is not drawn, and nothing says so."""
    one = next(e for e in report.estimates() if e.cost is not None and e.platform == "guest")
    made = charts.costs(report, [one.model_copy(update={"verdict": verdict})])
    encoding = made["layer"][2]["encoding"]
    for channel in ("color", "shape"):
        assert encoding[channel]["scale"]["domain"] == [verdict]
        assert len(encoding[channel]["scale"]["range"]) == 1


def test_an_axis_has_the_unit_that_its_far_end_reads_well_in(tmp_path: Path) -> None:
    """And not the one of most values: beside 0.4 s, 20 µs are 0.02 ms."""
    guest = "guest e1000"
    script = factory.Script(fail=frozenset(), slower={guest: 10_000.0})
    slow = read(factory.write(tmp_path / "run", script))
    drawn = charts_of(html.render(slow))
    titles = [
        chart["layer"][0]["encoding"]["x"]["title"]
        for chart in drawn.values()
        if chart.get("usermeta", {}).get("trials", {}).get("response") == "rtt_p50"
    ]
    assert titles == ["rtt p50, ms"]
    unit = {chart["encoding"]["x"]["title"] for name, chart in drawn.items() if name.endswith("c")}
    assert unit and not any("µs" in title or "ms" in title for title in unit)


def _rows(report: Report, estimates: list[Estimate]) -> tuple[list[dict[str, object]], str]:
    """What the costs' chart draws, and along which field."""
    made = charts.costs(report, estimates)
    return made["data"]["values"], made["layer"][1]["encoding"]["x"]["field"]


@pytest.mark.parametrize("better", ["higher", "lower"])
def test_an_interval_that_ends_at_a_loss_of_all_can_be_drawn(report: Report, better: str) -> None:
    """So wide is one of two trials that differ a thousandfold."""
    base = next(one for one in report.estimates() if one.cost is not None)
    ends = (-1e32, 1.0) if better == "higher" else (-1.0, 1e32)
    found = {"cost": 0.9, "cost_low": ends[0], "cost_high": ends[1], "better": better}
    (row,), field = _rows(report, [base.model_copy(update=found)])
    assert field == "times_low"
    assert sorted((row["times_low"], row["times_high"])) == pytest.approx([1e-6, 1e6])


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
