"""Boards of guests, side by side on one bench: each answers, sees this host's files, and is what was asked
for.
"""

from __future__ import annotations

import pytest

from hypertare.protocol.records import InterfaceState, NodeReady
from hypertare.runs.store import Store
from tests.integration.lab import Lab, summary

pytestmark = [pytest.mark.guest, pytest.mark.timeout(600)]

STUDY = """
name = "boards"
question = "What does a board cost?"
factors."sut.machine_type" = ["q35", "pc", "microvm"]
[sut]
memory = "160M"
accelerator = "tcg"
platforms = ["native", "guest"]
[workloads.rtt]
type = "ping"
duration = "200ms"
[workloads.files]
type = "command"
command = "cat /etc/hostname"
[design]
warmup = 0
min_trials = 2
max_trials = 2
blocks_per_boot = 2
min_boots = 1
"""


def test_boards_stand_side_by_side(lab: Lab) -> None:
    lab.study(STUDY)
    ran = lab.run("run", "study.toml", "--out", "run")
    assert ran.status == 0, ran
    run = lab.work / "run"
    found = summary(run)
    assert found["failed"] == []
    with Store.open(run) as store:
        kept = [one for _, bench in store.benches() for one in bench]
    boards = {
        ready.node: ready.vmm_argv[ready.vmm_argv.index("-machine") + 1].partition(",")[0]
        for ready in kept
        if isinstance(ready, NodeReady) and ready.vmm
    }
    assert sorted(boards.values()) == ["microvm", "pc", "q35"]
    drivers = {
        one.node: one.driver
        for one in kept
        if isinstance(one, InterfaceState) and one.node in boards
    }
    assert drivers == dict.fromkeys(boards, "virtio_net")
    with Store.open(run) as store:
        answered = {
            (trial.planned.workload, trial.planned.cell.get("sut.machine_type"))
            for trial in store.trials()
            if trial.planned.platform == "guest"
        }
    assert answered == {(work, board) for work in ("rtt", "files") for board in boards.values()}
