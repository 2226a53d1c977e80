"""The formats of other tools."""

from __future__ import annotations

import json

import pytest

from hypertare.report import data
from hypertare.report.model import Report


def test_hyperfine_s_json_has_each_platform_as_a_command(report: Report) -> None:
    results = json.loads(data.hyperfine(report))["results"]
    assert [one["command"] for one in results] == [
        "build, native",
        "build, container",
        "build, guest e1000",
        "build, guest virtio-net",
    ]
    for one in results:
        assert one["min"] <= one["median"] <= one["max"]
        assert one["mean"] == pytest.approx(sum(one["times"]) / len(one["times"]))
        assert len(one["times"]) == len(one["exit_codes"]) and one["user"] > 0 < one["system"]
    # Failed trials and warm-ups are in none.
    counted = {
        one.platform: one.n for one in report.estimates("build") if one.response == "elapsed"
    }
    assert [len(one["times"]) for one in results[:2]] == [counted["native"], counted["container"]]


def test_bencher_gets_response_and_cost_with_their_intervals(report: Report) -> None:
    found = json.loads(data.bmf(report))
    guest = found["build, guest virtio-net"]
    assert guest["elapsed"]["lower_value"] < guest["elapsed"]["value"]
    assert guest["cost"]["value"] == pytest.approx(0.38, abs=0.03)
    assert "cost" not in found["build, native"]
    assert "goodput" in found["tcp receive, guest e1000"]


def test_the_benchmark_action_gets_costs(report: Report) -> None:
    found = json.loads(data.benchmark_action(report))
    guest = next(one for one in found if one["name"] == "build, guest virtio-net")
    assert guest["unit"] == "%" and guest["value"] == pytest.approx(38, abs=3)
    assert guest["range"].startswith("± ")
    assert not any("native" in one["name"] for one in found)
