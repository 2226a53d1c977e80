"""What lives for a trial is made, saved, restored and ended on every platform; nothing of it is left."""

from __future__ import annotations

import pytest

from hypertare.protocol.records import TaskResult
from hypertare.runs.store import Store
from tests.integration.lab import Lab, Traces, summary

pytestmark = [pytest.mark.guest, pytest.mark.timeout(900)]

STUDY = """
name = "lives"
question = "What does it take to start a guest?"
factors."sut.machine_type" = ["q35", "microvm"]
[sut]
platforms = ["native", "container", "guest"]
memory = "160M"
accelerator = "tcg"
[workloads.life]
type = "life"
[design]
warmup = 0
min_trials = 2
max_trials = 2
blocks_per_boot = 2
min_boots = 1
"""


def test_every_platform_lives_and_leaves_nothing(lab: Lab) -> None:
    lab.study(STUDY)
    before = Traces.now()
    ran = lab.run("run", "study.toml", "--out", "run", patience_s=800)
    assert ran.status == 0, ran
    found = summary(lab.work / "run")
    assert found["failed"] == []
    lives: dict[str, list[dict[str, float]]] = {}
    with Store.open(lab.work / "run") as store:
        for trial in store.trials():
            for record in store.records(trial.planned.id):
                if isinstance(record, TaskResult) and record.purpose.role == "life":
                    lives.setdefault(trial.planned.platform, []).append(record.values)
    assert {platform: len(reported) for platform, reported in lives.items()} == {
        "native": 2,
        "container": 2,
        "guest": 4,
    }
    for platform, reported in lives.items():
        for values in reported:
            assert 0 < values["start_s"] <= values["answer_s"], values
            assert values["memory_bytes"] > 256 << 10 and values["stop_s"] >= 0
            assert ("restore_s" in values) == (platform == "guest")
    for values in lives["guest"]:
        parts = values["vmm_s"] + values["kernel_s"] + values["agent_s"]
        assert parts == pytest.approx(values["start_s"])
        assert min(values[name] for name in ("vmm_s", "kernel_s", "agent_s")) > 0
        # A guest's kernel and programs alone are as much, and its memory is not more.
        assert 20 << 20 < values["saved_bytes"] < 161 << 20
        assert values["memory_bytes"] > 60 << 20
    lab.assert_nothing_left(before)
