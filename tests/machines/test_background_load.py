"""Other programs are named by what they had, and this run's own never are."""

from __future__ import annotations

import os
from pathlib import Path

from hypertare.machines.environment import BackgroundLoad
from hypertare.runs.store import OtherProgram

OWN, CHILD, KERNEL = 100, 101, 2
SECOND = os.sysconf("SC_CLK_TCK")


class Machine:
    """A /proc that is made up, and the clock beside it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.now = 50.0
        self.reported: list[OtherProgram] = []
        self.used: dict[int, float] = {}
        for pid, name, parent in [
            (OWN, "hypertare", 1),
            (CHILD, "qemu (ours) x", OWN),
            (KERNEL, "kworker/0:1", 0),
            (200, "rustc", 1),
            (201, "rustc", 1),
            (300, "mail (new)", 1),
        ]:
            self.work(pid, name, 0, parent)
        self.others = BackgroundLoad(self.reported.extend, root, OWN, clock=lambda: self.now)

    def work(self, pid: int, name: str, seconds: float, parent: int = 1) -> None:
        self.used[pid] = self.used.get(pid, 0.0) + seconds
        flags = 0x200040 if pid == KERNEL else 0x400040
        ticks = round(self.used[pid] * SECOND)
        (self.root / str(pid)).mkdir(exist_ok=True)
        text = f"{pid} ({name}) S {parent} 1 1 0 -1 {flags} 0 0 0 0 {ticks} 0 0 0 20 0 1 0 7 0 0\n"
        (self.root / str(pid) / "stat").write_text(text)


def test_the_busiest_other_is_reported_of_each_block_since_the_last_look(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    for block in range(4):
        with machine.others.block(block):
            machine.now += 0.5
            machine.work(CHILD, "qemu (ours) x", 0.5, OWN)
            machine.work(KERNEL, "kworker/0:1", 0.4, 0)
            machine.work(200, "rustc", 0.15)
            machine.work(201, "rustc", 0.2)
            machine.work(300, "mail (new)", 0.25)
    named = [(one.block, one.name, round(one.cpus, 2)) for one in machine.reported]
    assert named[::2] == [(block, "rustc", 0.7) for block in range(4)]
    assert named[1::2] == [(block, "mail (new)", 0.5) for block in range(4)]


def test_what_went_before_a_block_is_beside_none(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    machine.work(200, "rustc", 9.0)
    machine.now += 9
    with machine.others.block(0):
        machine.now += 2
        machine.work(300, "mail (new)", 0.5)
    assert [(one.name, one.cpus) for one in machine.reported] == [("mail (new)", 0.25)]


def test_the_last_blocks_are_reported_at_the_end_unless_ticks_are_too_coarse(
    tmp_path: Path,
) -> None:
    machine = Machine(tmp_path)
    with machine.others.block(0):
        machine.now += 0.5
        machine.work(300, "mail (new)", 0.5)
    assert not machine.reported
    machine.others.flush()
    assert [one.block for one in machine.reported] == [0]
    with machine.others.block(1):
        machine.now += 0.1
        machine.work(300, "mail (new)", 0.1)
    machine.others.flush()
    machine.others.flush()
    assert [one.block for one in machine.reported] == [0]


def test_a_machine_that_shows_nothing_reports_nothing(tmp_path: Path) -> None:
    reported: list[OtherProgram] = []
    others = BackgroundLoad(reported.extend, tmp_path / "none", OWN)
    with others.block(0):
        pass
    others.flush()
    assert not reported
