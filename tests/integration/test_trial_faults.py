"""What goes wrong in a trial fails that trial, with the reason; the others go on."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.integration.lab import GUEST, IN_GUEST, Lab, Ran, Traces, statuses, summary, trials

pytestmark = pytest.mark.guest

EATS = "dd if=/dev/zero of=/dev/null bs=130M count=1"
"""More than is free, and less than there is: the kernel promises it, and finds out when it is touched."""

FILLS = "cat /dev/zero > filled"

COMMANDS = f"""
name = "faults"
question = "What goes wrong?"
[sut]
memory = "192M"
[workloads.right]
type = "command"
command = "true"
[workloads.fails]
type = "command"
command = "if {IN_GUEST}; then echo out of luck >&2; exit 7; fi"
[workloads.killed]
type = "command"
command = "if {IN_GUEST}; then kill -9 $$; fi"
[workloads.endless]
type = "command"
command = "if {IN_GUEST}; then echo still here; sleep 1000; fi"
limit = "2s"
[workloads.prints]
type = "command"
command = "if {IN_GUEST}; then yes | head -c 3000000; echo the end; fi"
[workloads.eats]
type = "command"
command = "if {IN_GUEST}; then {EATS}; fi"
[workloads.fills]
type = "command"
command = "if {IN_GUEST}; then {FILLS}; fi"
[workloads.fills_and_eats]
type = "command"
command = "if {IN_GUEST}; then {FILLS} 2>/dev/null; {EATS}; fi"
[design]
warmup = 0
min_trials = 2
max_trials = 2
precision = "90%"
"""

BOOT = """
name = "boots"
question = "Does the guest come up?"
[sut]
memory = "192M"
{sut}
[workloads.work]
type = "command"
command = "true"
[design]
warmup = 0
min_trials = 2
max_trials = 2
precision = "90%"
"""


@dataclass(frozen=True)
class Done:
    lab: Lab
    ran: Ran
    run: Path

    def reasons(self, platform: str, workload: str) -> set[str]:
        return {
            trial["reason"]
            for trial in summary(self.run)["failed"]
            if trial["platform"] == platform and trial["cell"]["workload"] == workload
        }


@pytest.fixture(scope="module")
def commands(shared: Lab) -> Done:
    shared.study(COMMANDS)
    return Done(
        shared, shared.run("run", "study.toml", "--out", shared.home / "run"), shared.home / "run"
    )


@pytest.mark.parametrize(
    ("workload", "words"),
    [
        ("fails", ("status 7", "out of luck")),
        ("killed", ("SIGKILL",)),
        ("endless", ("limit of 2 s", "task command on guest2")),
    ],
)
def test_a_command_that_goes_wrong_in_the_guest(
    commands: Done, workload: str, words: tuple[str, ...]
) -> None:
    assert statuses(commands.run, "guest", workload) == {"failed"}
    for platform in ("native", "container"):
        assert statuses(commands.run, platform, workload) == {"ok"}
    (reason,) = commands.reasons("guest", workload)
    for word in words:
        assert word in reason, reason


@pytest.mark.parametrize(
    ("workload", "words"),
    [
        ("eats", "the work ran out of memory: the guest has"),
        ("fills", "the work ran out of memory for files"),
        ("fills_and_eats", "the work ran out of memory: the guest has"),
    ],
)
def test_work_that_runs_out_of_memory_dies_alone(commands: Done, workload: str, words: str) -> None:
    """The agent lives on and reports why; a lost guest would be another reason."""
    assert statuses(commands.run, "guest", workload) == {"failed"}
    for platform in ("native", "container"):
        assert statuses(commands.run, platform, workload) == {"ok"}
    for reason in commands.reasons("guest", workload):
        assert words in reason and "--memory" in reason, reason


@pytest.mark.parametrize("workload", ["right", "prints"])
def test_the_others_go_on_and_megabytes_of_output_do_no_harm(commands: Done, workload: str) -> None:
    for platform in ("native", "container", "guest"):
        assert statuses(commands.run, platform, workload) == {"ok"}


def test_the_report_shows_them(commands: Done) -> None:
    assert commands.ran.status == 0, commands.ran
    assert "fails on guest was given up after 3 failures in a row" in commands.ran.said
    page = (commands.run / "report.html").read_text()
    assert "out of luck" in page and "SIGKILL" in page
    assert summary(commands.run)["complete"]


@pytest.mark.parametrize(
    ("sut", "words", "console"),
    [
        ('kernel_args = ["rdinit=/void", "root=/dev/void"]', ("panic",), "Kernel panic"),
        ('boot_limit = "300ms"', ("was not heard within 0.3 s",), None),
        ('cpu_model = "no-such-model"', ("no-such-model",), None),
    ],
    ids=["panics", "too slow", "refused by QEMU"],
)
def test_a_guest_that_does_not_come_up(
    lab: Lab, sut: str, words: tuple[str, ...], console: str | None
) -> None:
    lab.study(BOOT.format(sut=sut))
    before = Traces.now()
    ran = lab.run("run", "study.toml", "--out", "run")
    run = lab.work / "run"
    assert ran.status == 1, ran
    assert "No trial succeeded on guest" in ran.err
    assert statuses(run, "guest", "work") == {"failed"}
    assert statuses(run, "native", "work") == statuses(run, "container", "work") == {"ok"}
    failed = summary(run)["failed"]
    assert len(failed) == 3
    for trial in failed:
        assert all(word in trial["reason"] for word in words), trial
        assert console is None or any(console in line for line in trial["console"]), trial
    lab.assert_nothing_left(before)


KILLED = """
name = "killed"
question = "Who ends it?"
[sut]
memory = "192M"
platforms = ["native", "{platform}"]
[workloads.work]
type = "command"
command = "sleep 0.3"
[design]
warmup = 0
min_trials = 4
max_trials = 4
blocks_per_boot = 8
precision = "90%"
"""


@pytest.mark.parametrize("platform", ["guest", "container"])
def test_a_node_that_is_killed_is_made_anew(lab: Lab, platform: str) -> None:
    lab.study(KILLED.format(platform=platform))
    before = Traces.now()
    started = lab.start("run", "study.toml", "--out", "run")
    run = lab.work / "run"
    started.until_trials(run, 3)
    lab.kill(victim(lab, platform))
    ran = started.end()
    assert ran.status == 0, ran
    of_victim = [trial for trial in trials(run) if trial[2] == platform]
    failed = [trial for trial in of_victim if trial[5] == "failed"]
    assert len(failed) == 1, trials(run)
    assert "kill" in failed[0][6].lower(), failed
    assert of_victim[-1][5] == "ok"
    assert statuses(run, "native", "work") == {"ok"}
    assert failed[0][6] in summary(run)["failed"][0]["reason"]
    assert failed[0][6] in ran.said
    lab.assert_nothing_left(before)


def victim(lab: Lab, platform: str) -> int:
    if platform == "guest":
        return lab.find(GUEST)
    # The container's agent has a network of its own; the host node's is the bench's.
    nodes = [pid for pid, line in lab.processes().items() if "-agent node --place" in line]
    bench = next(pid for pid, line in lab.processes().items() if "-agent host-inside" in line)
    return next(pid for pid in nodes if network(pid) != network(bench))


def network(pid: int) -> int:
    return Path(f"/proc/{pid}/ns/net").stat().st_ino
