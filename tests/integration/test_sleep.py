"""`sleep`, as a user runs it."""

from __future__ import annotations

import pytest

from tests.integration.lab import Lab, summary

STUDY = """
name = "wake"
question = "How late does a thread wake?"
[sut]
platforms = ["native"]
[workloads.wake]
type = "sleep"
interval = "1ms"
duration = "200ms"
[design]
warmup = 0
min_trials = 2
max_trials = 2
"""


@pytest.mark.runs
def test_wakeups_of_this_host_are_measured(lab: Lab) -> None:
    lab.study(STUDY)
    ran = lab.run("run", "study.toml", "--out", "run")
    assert ran.status == 0, ran
    found = {one["response"]: one["estimate"] for one in summary(lab.work / "run")["estimates"]}
    assert found["wakeups"] + found["missed"] == pytest.approx(200)
    assert 0 < found["wakeup_p50"] <= found["wakeup_p99"] <= found["wakeup_max"] < 1
