from __future__ import annotations

from types import SimpleNamespace

from hypertare.report import charts, plots
from hypertare.report.model import Polls
from hypertare.runs.summary import Estimate
from tests.report.vega_lite import check

PLOT = {
    "title": "Goodput",
    "workload": "load",
    "x": "workloads.load.rate",
    "y": "goodput",
    "lines": "knobs.napi_weight",
    "published": "somebody, somewhere.",
}


def seen(weight: int, rate: object, goodput: float, **fields: object) -> Estimate:
    cell = {"workload": "load", "knobs.napi_weight": weight, "workloads.load.rate": rate}
    given: dict[str, object] = {
        "response": "goodput",
        "unit": "b/s (virtual)",
        "better": "higher",
        "cell": cell,
        "platform": "native",
        "n": 3,
        "estimate": goodput,
        "low": 0.9 * goodput,
        "high": 1.1 * goodput,
    }
    return Estimate.model_validate(given | fields)


def report(*estimates: Estimate, **changed: object):
    meta = SimpleNamespace(settings={"plots": [{**PLOT, **changed}]}, confidence=0.95)
    return SimpleNamespace(meta=meta, summary=SimpleNamespace(estimates=estimates))


ESTIMATES = [
    seen(64, "100 % of capacity", 9e6),
    seen(64, "20 % of capacity", 2e6),
    seen(1, "100 % of capacity", 3e6),
    seen(1, "20 % of capacity", 2e6),
    seen(1, "20 % of capacity", 7.0, response="loss", unit="share"),
]


def test_the_table_has_the_figures_by_line_and_rate() -> None:
    (one,) = plots.drawn(report(*ESTIMATES))
    assert one.head == ("napi weight", "rate", "platform", "goodput", "95 % interval")
    assert [row[:3] for row in one.rows] == [
        ("1", "20 %", "native"),
        ("1", "100 %", "native"),
        ("64", "20 %", "native"),
        ("64", "100 %", "native"),
    ]
    assert one.rows[-1][3].endswith("Mb/s (virtual)")
    assert "somebody, somewhere." in one.note


def test_the_chart_is_vega_lite_with_numbers_on_its_axis() -> None:
    (one,) = plots.drawn(report(*ESTIMATES))
    made = one.specification
    check(made)
    encoding = made["layer"][0]["encoding"]
    assert encoding["x"]["type"] == "quantitative"
    assert encoding["x"]["title"] == "offered rate, % of capacity"
    assert encoding["y"]["title"] == "goodput, Mb/s (virtual)"
    assert [row["x"] for row in made["data"]["values"]] == [20, 100, 20, 100]


def test_words_stand_beside_each_other_in_panes_of_their_own() -> None:
    estimates = [
        seen(1, "20 % of capacity", 2e6, cell={**ESTIMATES[3].cell, "sut.nic": nic})
        for nic in ("e1000", "vmxnet3")
    ]
    (one,) = plots.drawn(report(*estimates, x="sut.nic", facet="workloads.load.rate"))
    made = one.specification
    check(made)
    assert len(made["concat"]) == 1
    assert made["concat"][0]["layer"][0]["encoding"]["x"]["type"] == "nominal"


def test_what_was_not_measured_is_not_drawn() -> None:
    assert list(plots.drawn(report(ESTIMATES[-1]))) == []


def test_a_factor_that_the_plot_does_not_name_has_lines_of_its_own() -> None:
    estimates = [
        seen(1, "20 % of capacity", 2e6, cell={**ESTIMATES[3].cell, "sut.nic": nic})
        for nic in ("e1000", "vmxnet3")
    ]
    (one,) = plots.drawn(report(*estimates))
    assert one.head[:3] == ("napi weight", "rate", "nic")
    values = one.specification["data"]["values"]
    assert [row["line"] for row in values] == ["1, e1000", "1, vmxnet3"]


def test_a_plot_of_some_cells_shows_these_alone() -> None:
    changed = {"lines": None, "where": {"knobs.napi_weight": 64}}
    (one,) = plots.drawn(report(*ESTIMATES, **changed))
    assert [row[:2] for row in one.rows] == [("20 %", "native"), ("100 %", "native")]
    assert list(plots.drawn(report(*ESTIMATES[2:], **changed))) == []


def test_polls_are_shown_as_shares() -> None:
    found = [Polls("native", "load", 1, 30, 0.75), Polls("native", "load", 44, 10, 0.25)]
    made = charts.polls(
        found, SimpleNamespace(platforms=("native",), colours={"native": "#3f8fd2"})
    )
    check(made)
    values = made["data"]["values"]
    assert [(row["packets"], row["share"]) for row in values] == [(1, 0.75), (44, 0.25)]
