"""After a power cut a guest has what fdatasync returned for, and loses it where flushes are dropped."""

from __future__ import annotations

import pytest

from hypertare.protocol.records import TaskResult
from hypertare.runs.store import Store
from tests.integration.lab import Lab, Traces, summary

pytestmark = [
    pytest.mark.guest,
    pytest.mark.timeout(1800),
    pytest.mark.xdist_group("emulated"),
]

CUT = """
name = "cut"
question = "Is what fdatasync promised there?"
machine = "emulated"
factors."sut.disk_cache" = ["writeback", "unsafe"]
[sut]
platforms = ["native", "container", "guest"]
cpus = 2
guest_cpus = 1
memory = "128M"
disk_format = "qcow2"
[workloads.cut]
type = "power-cut"
span = "1M"
within = "300ms"
[design]
warmup = 0
min_trials = 2
max_trials = 2
blocks_per_boot = 2
min_boots = 1
"""


def test_what_was_durable_is_there_and_unsafe_loses_it(lab: Lab) -> None:
    lab.study(CUT)
    before = Traces.now()
    ran = lab.run("run", "study.toml", "--out", "run", patience_s=1500)
    assert ran.status == 0, ran
    assert summary(lab.work / "run")["failed"] == []
    lost: dict[tuple[str, object], list[float]] = {}
    with Store.open(lab.work / "run") as store:
        for trial in store.trials():
            for record in store.records(trial.planned.id):
                if isinstance(record, TaskResult) and record.task == "cut":
                    values = record.values
                    # In mid write: some of it was made durable, and not all of the time was over.
                    assert values["blocks"] == 256 and values["durable_writes"] > 8, values
                    cell = (trial.planned.platform, trial.planned.cell["sut.disk_cache"])
                    lost.setdefault(cell, []).append(values["lost_blocks"])
    assert lost.pop(("guest", "unsafe")) == [256, 256]
    assert len(lost) == 5 and all(set(blocks) == {0} for blocks in lost.values()), lost
    lab.assert_nothing_left(before)
