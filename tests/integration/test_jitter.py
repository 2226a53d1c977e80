"""Gaps between datagrams that are sent at a rate: natively, in a container, and in the report."""

from __future__ import annotations

import pytest

from tests.integration.lab import Lab, summary

pytestmark = pytest.mark.runs

STUDY = """
name = "voice"
question = "How regularly does it hear?"
[sut]
platforms = ["native", "container"]
[workloads.voice]
type = "stream"
protocol = "udp"
message = 250
rate = "1M"
duration = "500ms"
[workloads.rtt]
type = "ping"
duration = "100ms"
[jitter]
[design]
warmup = 0
min_trials = 2
max_trials = 2
blocks_per_boot = 2
min_boots = 1
"""


def test_gaps_are_those_of_the_rate_and_stand_in_the_report(lab: Lab) -> None:
    lab.study(STUDY)
    ran = lab.run("run", "study.toml", "--out", "run")
    assert ran.status == 0, ran
    (found,) = summary(lab.work / "run")["analyses"]
    rows = {(row["cell"]["workload"], row["platform"]): row for row in found["rows"]}
    assert set(rows) == {(w, p) for w in ("voice", "rtt") for p in ("native", "container")}
    for platform in ("native", "container"):
        jitter, median, *_ = rows["voice", platform]["figures"]
        # 250 bytes at 1 Mb/s are one each 2 ms.
        assert 0.9 * 2e-3 < median["estimate"] < 1.1 * 2e-3, rows
        assert 0 < jitter["estimate"] < 2e-3
    page = lab.run("report", "run", "--all")
    assert "jitter of voice, rtt" in page.out.lower(), page
