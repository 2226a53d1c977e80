"""Settings of a machine that was there before: changed when asked, and put back whatever ends the run."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.lab import Lab, Ran, Traces, statuses, summary, trials, until
from tests.integration.sshd import Machine, machine_apart

pytestmark = [
    pytest.mark.runs,
    pytest.mark.timeout(600),
    pytest.mark.skipif(os.geteuid() != 0, reason="settings are root's"),
]

NAME = "net/ipv4/tcp_notsent_lowat"
DEFAULT = "4294967295"
STUDY = """
name = "settings"
question = "?"
[sut]
platforms = ["native", "given"]
[given.vm]
reach = "{reach}"
settings = {settings}
{knobs}
[workloads.work]
type = "command"
command = "sh -c 'sleep 0.3; exec 2>&-; [ $(cat /proc/sys/{name}) = {wanted} ]'"
[design]
warmup = 0
min_trials = {trials}
max_trials = {trials}
blocks_per_boot = {trials}
min_boots = 1
"""
CHANGED = f'[knobs]\nsysctls = {{ "{NAME}" = 16384 }}'
ALIVE = r"agent-[0-9a-f]{64} keep-settings"


@pytest.fixture
def there(lab: Lab) -> Iterator[Machine]:
    with machine_apart(lab) as one:
        assert one.sysctl(NAME) == DEFAULT
        yield one


def study(lab: Lab, there: Machine, count: int = 2, *, changes: bool = True) -> None:
    text = STUDY.format(
        reach=there.reach,
        settings=str(changes).lower(),
        knobs=CHANGED if changes else "",
        name=NAME,
        wanted="16384" if changes else DEFAULT,
        trials=count,
    )
    lab.study(text)


def run(lab: Lab, there: Machine, out: str, *, changes: bool = True) -> Ran:
    study(lab, there, changes=changes)
    return lab.run("run", "study.toml", "--out", out, **there.env)


def test_a_setting_is_changed_for_the_trial_read_back_and_put_back(
    lab: Lab, there: Machine
) -> None:
    before = Traces.now()
    study(lab, there)
    ran = lab.run("run", "study.toml", "--out", "run", **there.env)
    assert ran.status == 0, ran
    # The command fails where the setting is another.
    assert summary(lab.work / "run")["failed"] == []
    assert statuses(lab.work / "run", "given", "work") == {"ok"}
    assert there.sysctl(NAME) == DEFAULT and there.noted() == []
    lab.assert_nothing_left(before)
    assert there.places() == []


def test_who_is_not_root_there_needs_sudo_without_a_password(lab: Lab, there: Machine) -> None:
    there.program("id", '[ "$1" = -u ] && echo 1000 || exec /usr/bin/id "$@"')
    there.program("sudo", "echo 'sudo: a password is required' >&2; exit 1")
    ran = run(lab, there, "refused")
    assert ran.status == 3 and "its user is not root there, and sudo asks" in ran.said, ran
    there.program("sudo", '[ "$1" = -n ] || exit 1; shift; exec "$@"')
    ran = run(lab, there, "by-sudo")
    assert ran.status == 0, ran
    assert there.sysctl(NAME) == DEFAULT and there.noted() == []


def test_it_is_put_back_whatever_is_killed(lab: Lab, there: Machine) -> None:
    """kill -9 of the agent, of sshd's processes, of the controller, each in mid trial."""
    before = Traces.now()
    study(lab, there, 12)
    started = lab.start("run", "study.toml", "--out", "run", **there.env)

    def changed() -> bool:
        return there.sysctl(NAME) == "16384" and bool(there.noted())

    def is_back() -> bool:
        return there.sysctl(NAME) == DEFAULT and there.noted() == []

    started.until(changed, "the setting to be changed")
    lab.kill(started.until(lambda: lab.find(r"agent-[0-9a-f]{64} node "), "the agent there"))
    until(is_back, "the setting to be put back after the agent", 30)
    failed = started.until(
        lambda: sum(bool(one[6]) for one in trials(lab.work / "run")), "a failure"
    )
    started.until(changed, "the setting to be changed again")
    for pid in there.sessions():
        if Path(f"/proc/{pid}").exists():
            os.kill(pid, signal.SIGKILL)
    until(is_back, "the setting to be put back after sshd", 30)
    started.until(
        lambda: sum(bool(one[6]) for one in trials(lab.work / "run")) > failed, "another failure"
    )
    started.until(changed, "the setting to be changed once more")
    before.agents.update(started.agents())
    lab.kill(started.process.pid)
    started.process.wait()
    until(is_back, "the setting to be put back after the controller", 30)
    lab.assert_nothing_left(before)
    assert there.places() == []


def test_what_a_killed_keeper_leaves_is_shown_and_put_back_by_the_next_run(
    lab: Lab, there: Machine
) -> None:
    study(lab, there, 12)
    started = lab.start("run", "study.toml", "--out", "run", **there.env)
    started.until(lambda: there.sysctl(NAME) == "16384", "the setting to be changed")
    keeper = lab.find(ALIVE)
    assert keeper is not None
    # It may not be quicker than this test.
    os.kill(keeper, signal.SIGSTOP)
    lab.kill(started.process.pid)
    lab.kill(keeper)
    assert there.sysctl(NAME) == "16384"
    until(lambda: not lab.processes(), "all to end", 60)
    assert there.sysctl(NAME) == "16384" and there.noted()
    # A run that may change nothing there says so, and leaves it.
    ran = run(lab, there, "unchanged", changes=False)
    assert f"settings are not as they were ({NAME} was {DEFAULT}, now it is 16384)" in ran.said, ran
    assert there.sysctl(NAME) == "16384"
    ran = run(lab, there, "again")
    assert ran.status == 0 and "its settings were put back" in ran.said, ran
    assert there.sysctl(NAME) == DEFAULT and there.noted() == []
