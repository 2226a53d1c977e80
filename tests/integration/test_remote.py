"""A lab elsewhere: benches that stand on it, what is refused, and what is left behind on either side."""

from __future__ import annotations

import os
import signal
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.integration.lab import Lab, Started, Traces, summary, until
from tests.integration.sshd import Machine, machine

pytestmark = [pytest.mark.runs, pytest.mark.timeout(600)]

STUDY = """
name = "elsewhere"
question = "?"
machine = "remote"
[remote]
reach = "{reach}"
[sut]
platforms = ["native", "{platform}"]
memory = "256M"
[workloads.tcp]
type = "stream"
duration = "600ms"
[workloads.burn]
type = "burn"
duration = "100ms"
[design]
warmup = 0
min_trials = {trials}
max_trials = {trials}
blocks_per_boot = {trials}
min_boots = 1
"""


@pytest.fixture
def there(lab: Lab) -> Iterator[Machine]:
    with machine(lab) as one:
        yield one


def begin(lab: Lab, there: Machine, trials: int = 6) -> Started:
    lab.study(STUDY.format(reach=there.reach, platform="container", trials=trials))
    return lab.start("run", "study.toml", "--out", "run", **there.env)


def agent_there(lab: Lab) -> int | None:
    """The outside of the host agent that the connection leads to."""
    return lab.find(r"agent-[0-9a-f]{64} host --reached")


def test_benches_stand_there_and_nothing_of_this_host_is_in_the_run(
    lab: Lab, there: Machine
) -> None:
    there.program("qemu-system-x86_64", "echo 'QEMU emulator version 99.5'")
    before = Traces.now()
    ran = begin(lab, there, trials=2).end()
    assert ran.status == 0, ran
    run = lab.work / "run"
    found = summary(run)
    assert found["failed"] == []
    assert {one["cell"]["workload"] for one in found["estimates"]} == {"tcp", "burn"}
    assert found["machine"]["kind"] == "remote" and found["versions"]["qemu"] == "99.5"
    with sqlite3.connect(run / "run.sqlite") as file:
        assert file.execute("select count(*) from other_program").fetchone() == (0,)
    (agent,) = there.agents()
    assert agent.stat().st_mode & 0o777 == 0o700
    lab.assert_nothing_left(before)


def test_what_cannot_be_had_there_is_said_before_anything_begins(lab: Lab, there: Machine) -> None:
    def refused(*changes: str, status: int = 3, reach: str = there.reach) -> str:
        sets = [word for change in changes for word in ("--set", change)]
        lab.study(STUDY.format(reach=reach, platform="container", trials=2))
        ran = lab.run("run", "study.toml", *sets, "--out", "run", **there.env)
        assert ran.status == status, ran
        assert not (lab.work / "run").exists()
        return ran.said

    assert "Connection refused" in refused(reach=there.reach.replace(str(there.port), "1"))
    assert "is no ssh" in refused("remote.reach=rsh vm", status=2)
    there.program("uname", '[ "$1" = -m ] && echo aarch64 || echo Linux')
    assert "it is Linux aarch64" in refused()
    (there.home / "bin" / "uname").unlink()
    assert there.agents() == []
    assert "64 CPUs were asked for" in refused("sut.cpus=64", status=2)
    there.program("qemu-system-x86_64", "exit 1")
    assert (
        "the platform guest cannot be had there: qemu-system-x86_64 does not say which"
        in refused("sut.platforms=native,guest", "sut.accelerator=tcg")
    )
    (there.home / "bin" / "qemu-system-x86_64").unlink()
    (agent,) = there.agents()
    agent.unlink()
    there.program("sha256sum", f"echo {agent.name.removeprefix('agent-')} -")
    agent.write_text('#!/bin/sh\nyes "$*"\n')
    agent.chmod(0o700)
    assert "it says more than the 65536 bytes" in refused() or "did not answer" in refused()


@pytest.mark.parametrize("who", ["controller", "session", "agent", "inside"])
def test_nothing_is_left_on_either_side_of_what_was_killed(
    lab: Lab, there: Machine, who: str
) -> None:
    before = Traces.now()
    started = begin(lab, there)
    run = lab.work / "run"
    started.until_trials(run, 2)
    before.agents.update(started.agents())
    victims: dict[str, Callable[[], int | None]] = {
        "session": lambda: next(iter(reversed(there.sessions())), None),
        "agent": lambda: agent_there(lab),
        "inside": lambda: lab.find(r"host-inside --scope"),
    }
    if who == "controller":
        started.stop(signal.SIGKILL)
    else:
        os.kill(until(victims[who], who, 20), signal.SIGKILL)
        ran = started.end()
        assert ran.status == 1 and f"the agent at {there.reach} ended" in ran.said, ran
        assert "Every trial before is kept" in ran.said
    lab.assert_nothing_left(before)
    if who == "session":
        ran = lab.run("run", "--resume", "--out", "run", **there.env)
        assert ran.status == 0 and summary(run)["failed"] == [], ran


def test_an_agent_that_hears_nothing_any_more_ends(lab: Lab, there: Machine) -> None:
    """No word comes through: ssh notices after six seconds, the agent there after fifteen."""
    before = Traces.now()
    started = begin(lab, there)
    started.until_trials(lab.work / "run", 2)
    before.agents.update(started.agents())
    sessions = there.sessions()
    for pid in sessions:
        os.kill(pid, signal.SIGSTOP)
    try:
        ran = started.end()
        assert ran.status == 1 and "Every trial before is kept" in ran.said, ran
        until(lambda: agent_there(lab) is None, "the agent there to end", 60)
    finally:
        for pid in sessions:
            if Path(f"/proc/{pid}").exists():
                os.kill(pid, signal.SIGKILL)
    lab.assert_nothing_left(before)


def test_commands_work_there_in_a_copy_of_the_work_directory(lab: Lab, there: Machine) -> None:
    (lab.work / "data").write_text("seen\n")
    there.program(
        "only-there",
        f'read line < data; [ "$line $HOME" = "seen {there.home}" ] && [ -z "$SECRET" ] && [ ! -e mine ]',
    )
    stray = there.home / ".cache" / "hypertare" / "work-of-a-run-whose-shell-was-killed"
    stray.mkdir(parents=True)
    text = STUDY.format(reach=there.reach, platform="container", trials=2)
    command = '\n[workloads.work]\ntype = "command"\ncommand = "only-there && touch mine"\n'
    lab.study(text.replace("[workloads.burn]", f"{command}[workloads.burn]"))
    before = Traces.now()
    ran = lab.run("run", "study.toml", "--out", "run", SECRET="of this host", **there.env)
    assert ran.status == 0 and summary(lab.work / "run")["failed"] == [], ran
    assert not (lab.work / "mine").exists()
    lab.assert_nothing_left(before)
    assert [one.name[:6] for one in (there.home / ".cache" / "hypertare").iterdir()] == ["agent-"]


@pytest.mark.guest
def test_a_guest_boots_there_from_what_was_brought(lab: Lab, there: Machine) -> None:
    before = Traces.now()
    lab.study(STUDY.format(reach=there.reach, platform="guest", trials=2))
    ran = lab.run("run", "study.toml", "--set", "sut.boot_limit=120s", "--out", "run", **there.env)
    assert ran.status == 0, ran
    found = summary(lab.work / "run")
    assert found["failed"] == []
    (guest,) = [one for one in found["platforms"] if one["platform"] == "guest"]
    assert guest["vmm"]
    lab.assert_nothing_left(before)
    files = sorted((there.home / ".cache" / "hypertare").iterdir())
    assert [file.name.split("-")[0] for file in files] == ["agent", "file", "file"]
    # It is asked to have them for a month, and no longer.
    old, *_ = [file for file in files if file.name.startswith("file")]
    stray = old.with_name("file-" + "0" * 64)
    stray.write_bytes(b"")
    os.utime(stray, (1, 1))
    inodes = [file.stat().st_ino for file in files]
    ran = lab.run(
        "run", "study.toml", "--set", "sut.boot_limit=120s", "--out", "again", **there.env
    )
    assert ran.status == 0 and not stray.exists()
    assert [file.stat().st_ino for file in files] == inodes, "nothing is brought again"


def test_two_hosts_have_boots_by_turns_and_one_that_is_lost_is_missed(
    lab: Lab, there: Machine
) -> None:
    before = Traces.now()
    with machine(lab, beside=there) as other:
        reach = f'{there.reach}", "{other.reach}'
        text = STUDY.replace('"{reach}"', '["{reach}"]').replace(
            '"300ms"', '"100ms"\nomit = "20ms"'
        )
        text = text.replace("blocks_per_boot = {trials}", "blocks_per_boot = 2")
        lab.study(text.format(reach=reach, platform="container", trials=8))
        ran = lab.run("run", "study.toml", "--out", "run", **there.env)
        assert ran.status == 0, ran
        found = summary(lab.work / "run")
        (by_host,) = (one for one in found["analyses"] if one["name"] == "hosts")
        hosts = [there.reach, other.reach]
        burns = [one["what"] for one in by_host["rows"] if one["cell"]["workload"] == "burn"]
        assert burns == [*hosts, *hosts]
        assert len(there.agents()) == len(other.agents()) == 1

        started = lab.start("run", "study.toml", "--out", "lost", **there.env)
        started.until_trials(lab.work / "lost", 2)
        before.agents.update(started.agents())
        for session in reversed(other.sessions()):
            lab.kill(session)
        ran = started.end()
        assert ran.status == 0, ran
        assert "a host was lost, and the run went on without its boots" in ran.said
        trials = summary(lab.work / "lost")["estimates"]
        # A block that the lost host had begun is one of the eight.
        assert min(one["n"] for one in trials if one["response"] == "goodput") >= 7

        shared = lab.run(
            *("run", "study.toml", "--set", "workloads.tcp.rate=50 % of capacity"),
            # Long enough that a stream carries something on a busy host, too.
            *("--set", "workloads.tcp.duration=400ms"),
            *("--set", "design.max_trials=4", "--set", "design.min_trials=4", "--out", "shared"),
            **there.env,
        )
        assert shared.status == 0, shared
        with sqlite3.connect(lab.work / "shared" / "run.sqlite") as file:
            kinds = dict(
                file.execute("select kind, count(*) from trial where status = 'ok' group by kind")
            )
        assert kinds.keys() == {"capacity", "measured"} and kinds["measured"] == 16

        refused = lab.run(
            "run",
            "study.toml",
            "--set",
            f'remote.reach=["{reach}", "ssh -p 1 a@127.0.0.1"]',
            **there.env,
        )
        assert refused.status == 3 and "Connection refused" in refused.said, refused
    lab.assert_nothing_left(before)
