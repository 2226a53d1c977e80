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
network = true
[workloads.density]
type = "life"
most = 2
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
    many: dict[str, list[dict[str, float]]] = {}
    with Store.open(lab.work / "run") as store:
        for trial in store.trials():
            for record in store.records(trial.planned.id):
                if isinstance(record, TaskResult) and record.purpose.role == "life":
                    of = many if trial.planned.workload == "density" else lives
                    of.setdefault(trial.planned.platform, []).append(record.values)
    counts = [
        {platform: len(reported) for platform, reported in of.items()} for of in (lives, many)
    ]
    assert counts[0] == {"native": 2, "container": 2, "guest": 4}
    assert counts[1] == {"native": 2, "container": 2, "guest": 4}
    for platform, reported in lives.items():
        for values in reported:
            times = [
                values[name] for name in ("start_s", "answer_s", "work_s", "served_s", "reply_s")
            ]
            assert times[0] > 0 and times == sorted(times), values
            assert values["memory_bytes"] > 256 << 10 and values["stop_s"] >= 0
            assert ("restore_s" in values) == (platform == "guest")
    for values in lives["guest"]:
        parts = values["vmm_s"] + values["kernel_s"] + values["agent_s"]
        assert parts == pytest.approx(values["start_s"])
        assert min(values[name] for name in ("vmm_s", "kernel_s", "agent_s")) > 0
        # A guest's kernel and programs alone are as much, and its memory is not more.
        assert 20 << 20 < values["saved_bytes"] < 161 << 20
        assert values["memory_bytes"] > 60 << 20
        # What of it is QEMU's own, translated code among it.
        assert 4 << 20 < values["vmm_bytes"] < values["memory_bytes"]
    for platform, reported in many.items():
        for values in reported:
            # The second may be late on a busy machine: then it is not one that fits.
            assert values["fitted"] == 2 if values["slowest"] < 2 else values["fitted"] == 1, values
            assert 0.5 < values["crowd_bytes"] / values["memory_bytes"] < 2, (platform, values)
    lab.assert_nothing_left(before)


VIRTUAL = """
name = "virtual-life"
question = "What does it take to start a guest, in virtual time?"
machine = "emulated"
[sut]
platforms = ["native", "container", "guest"]
memory = "128M"
cpus = 2
guest_cpus = 1
[workloads.life]
type = "life"
network = true
[design]
warmup = 0
min_trials = 2
max_trials = 2
min_boots = 1
blocks_per_boot = 2
"""


@pytest.mark.release
def test_every_platform_lives_in_virtual_time(lab: Lab) -> None:
    ran = lab.run("run", lab.study(VIRTUAL), "--fresh", "--out", "run")
    assert ran.status == 0, ran
    assert summary(lab.work / "run")["failed"] == []
    with Store.open(lab.work / "run") as store:
        reported = {t.planned.id: list(store.records(t.planned.id)) for t in store.trials()}
    assert len(reported) == 6
    guests = [
        record.values
        for records in reported.values()
        for record in records
        if isinstance(record, TaskResult) and "restore_s" in record.values
    ]
    assert len(guests) == 2
    for values in guests:
        assert values["work_s"] < values["reply_s"] and values["restore_s"] < values["answer_s"]
