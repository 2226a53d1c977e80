"""What a command does besides, and no figure has: it is said, or cannot be done."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from tests.integration.lab import Lab, Traces, trials

pytestmark = pytest.mark.runs

FEW = ("--on", "native,container", "--min-trials", "2", "--max-trials", "2")
SYNCED = """
import os
file = os.open("f", os.O_CREAT | os.O_RDWR | os.O_DSYNC)
for _ in range(5):
    os.write(file, b"x")
    os.fsync(file)
os.sync()
"""


def test_calls_that_wait_for_a_disk_are_counted_in_the_warmup(lab: Lab) -> None:
    ran = lab.run("weigh", *FEW, "--out", "run", "--", lab.python, "-c", SYNCED)
    assert ran.status == 0, ran
    assert "wants its data on a disk (7 calls of fsync" in ran.said
    assert {trial[5] for trial in trials(lab.work / "run")} == {"ok"}
    for words in (("--warmup", "0", "--", lab.python, "-c", SYNCED), ("--", "true")):
        ran = lab.run("weigh", *FEW, *words)
        assert ran.status == 0 and "on a disk" not in ran.out, ran


def test_with_a_terminal_it_has_one_on_every_platform(lab: Lab) -> None:
    look = "import os; assert all(map(os.isatty, range(3))); open('/dev/tty').close()"
    ran = lab.run("weigh", *FEW, "--tty", "--out", "run", "--", lab.python, "-c", look)
    assert ran.status == 0, ran
    assert {trial[5] for trial in trials(lab.work / "run")} == {"ok"}
    ran = lab.run("weigh", *FEW, "--tty", "--input", "f", "--", "cat")
    assert ran.status == 2 and "--input" in ran.err, ran


def test_what_is_left_running_is_killed_and_said(lab: Lab) -> None:
    before = Traces.now()
    ran = lab.run("weigh", *FEW, "--", "sh", "-c", "sleep 1234 & sleep 0.1")
    assert ran.status == 0 and "ends before what it has started (sleep)" in ran.said, ran
    ran = lab.run("weigh", *FEW, "--", "sh", "-c", "sleep 0.1 & wait")
    assert ran.status == 0 and "ends before" not in ran.out, ran
    lab.assert_nothing_left(before)


WIDER = """
import os
given = os.sched_getaffinity(0)
os.sched_setaffinity(0, range(os.cpu_count()))
raise SystemExit(os.sched_getaffinity(0) != given)
"""


def test_it_cannot_take_cpus_that_it_was_not_given(lab: Lab) -> None:
    before = Traces.now()
    ran = lab.run("weigh", *FEW, "--cpus", "1", "--out", "run", "--", lab.python, "-c", WIDER)
    kept = has_cpusets() or len(os.sched_getaffinity(0)) == 1
    assert ran.status == 0 if kept else ran.status != 0, ran
    assert {trial[5] for trial in trials(lab.work / "run")} == {"ok" if kept else "failed"}
    lab.assert_nothing_left(before)


def has_cpusets() -> bool:
    """Whether this process's own cgroup hands cpusets down."""
    text = Path("/proc/self/cgroup").read_text()
    own = re.search("^0::/(.*)$", text, re.MULTILINE)
    handed_down = Path("/sys/fs/cgroup", own[1] if own else "", "cgroup.subtree_control")
    if not os.access(handed_down.parent, os.W_OK) or not handed_down.is_file():
        return False
    return "cpuset" in handed_down.read_text().split()
