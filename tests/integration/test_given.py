"""Machines that were there before: what is weighed on them, what is refused, and what is left behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from hypertare.base.errors import MachineError
from hypertare.machines.host.given import address_towards
from tests.integration.lab import Lab, Ran, Traces, statuses, summary, trials, until
from tests.integration.sshd import Machine, machine, machine_without_exec

pytestmark = [pytest.mark.runs, pytest.mark.timeout(600)]

STUDY = """
name = "given"
question = "?"
[sut]
platforms = ["native", "given"]
[given.vm]
reach = "{reach}"
what = "a virtual machine"
[workloads.work]
type = "command"
command = "sh -c 'sleep 0.3'"
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


def begin(lab: Lab, there: Machine, trials: int = 40):  # type: ignore[no-untyped-def]
    lab.study(STUDY.format(reach=there.reach, trials=trials))
    return lab.start("run", "study.toml", "--out", "run", **there.env)


def test_a_command_runs_in_a_fresh_copy_with_the_environment_of_that_machine(
    lab: Lab, there: Machine
) -> None:
    (lab.work / "data").write_text("seen\n")
    (lab.work / "sub").mkdir()
    (lab.work / "link").symlink_to("data")
    (lab.work / "tool").write_text("#!/bin/sh\nexit 0\n")
    (lab.work / "tool").chmod(0o777)
    script = (
        '[ -n "$HYPERTARE_CACHE" ] && exit 0; '  # natively
        '[ "$HOME" = %s ] && [ -z "$SECRET" ] && [ -d sub ] && [ "$(cat link)" = seen ] && '
        '[ ! -e mine ] && touch mine && [ -w "$TMPDIR" ] && ./tool && '
        '[ "$(stat -c %%a tool)" = 777 ] && [ "$(umask)" = %s ] && echo as-it-should'
    )
    before = Traces.now()
    ran = lab.run(
        *("weigh", "--quick", "--out", "run", "--log"),
        *("--given", f"a={there.reach}", "--given", f"b={there.reach}"),
        *("--", "sh", "-c", script % (there.home, _umask(there))),
        SECRET="of the controller",
        **there.env,
    )
    assert ran.status == 0, ran
    found = summary(lab.work / "run")
    assert found["failed"] == []
    assert {one["cell"].get("sut.given") for one in found["estimates"]} >= {"a", "b"}
    states = [one for one in found["platforms"] if one["platform"] == "given"]
    assert len(states) == 2 and all(one["processor"] == found["machine"]["cpu"] for one in states)
    printed = [
        one.read_text()
        for one in (lab.work / "run").rglob("*")
        if one.is_file() and "given" in str(one)
    ]
    assert any("as-it-should" in text for text in printed)
    # The agent stays, once and for this user alone; nothing else does.
    (agent,) = there.agents()
    assert agent.stat().st_mode & 0o777 == 0o700
    inode = agent.stat().st_ino
    lab.assert_nothing_left(before)
    assert there.places() == []
    # It is not brought again, but one that was tampered with is.
    agent.write_bytes(b"tampered with")
    again = lab.run(
        "weigh", "--quick", "--given", there.reach, "--json", "-", "--", "true", **there.env
    )
    assert again.status == 0 and json.loads(again.out)["failed"] == []
    assert there.agents() == [agent] and agent.stat().st_size > 1 << 20
    assert agent.stat().st_ino != inode


def test_what_cannot_be_reached_is_said_before_anything_begins(lab: Lab, there: Machine) -> None:
    def refused(reach: str = there.reach, *more: str, **env: str) -> str:
        ran = lab.run(
            "weigh", "--quick", *more, "--given", reach, "--", "true", **(there.env | env)
        )
        assert ran.status in (2, 3), ran
        return ran.said

    assert "Connection refused" in refused(there.reach.replace(str(there.port), "1"))
    assert "put it into your ~/.ssh/config" in refused("ssh -o ProxyCommand=touch vm")
    assert "is no ssh" in refused("rsh vm")
    known = there.place / "known"
    keys = known.read_text()
    known.write_text("")
    said = refused()
    assert "host key is not known here (SHA256:" in said and f"{there.reach} true" in said
    known.write_text(keys)
    user = there.place / "user.pub"
    key = user.read_text()
    user.write_text("")
    assert "lets nobody in without a password" in refused()
    user.write_text(key)
    there.program("uname", '[ "$1" = -m ] && echo aarch64 || echo Linux')
    assert "it is Linux aarch64, and the agent is a program for Linux x86_64" in refused()
    (there.home / "bin" / "uname").unlink()
    there.program("nproc", "echo 1")
    assert "2 CPUs are asked for (sut.cpus, --cpus), and it has 1" in refused(
        there.reach, "--cpus", "2"
    )
    (there.home / "bin" / "nproc").unlink()
    there.program("mv", "echo 'mv: No space left on device' >&2; exit 1")
    assert "has no room for what is brought there" in refused()
    (there.home / "bin" / "mv").unlink()
    there.program("chmod", "exit 0")
    assert "no program may be run from its ~/.cache/hypertare" in refused()
    (there.home / "bin" / "chmod").unlink()
    assert there.agents() == [] and there.places() == []
    assert "needs a bench's own network" in refused(there.reach, "--peer", "cat")


NETWORK = """
name = "given"
question = "?"
[sut]
platforms = ["native", "given"]
[given.vm]
reach = "{reach}"
address = "{address}"
{peer}
[workloads.tcp]
type = "stream"
duration = "300ms"
[workloads.rtt]
type = "ping"
protocol = "udp"
duration = "300ms"
[design]
warmup = 0
min_trials = 2
max_trials = 2
blocks_per_boot = 2
min_boots = 1
"""


def test_traffic_goes_to_an_address_of_that_machine_and_of_no_other(
    lab: Lab, there: Machine
) -> None:
    def run(address: str, peer: str = "", out: str = "run") -> Ran:
        lab.study(NETWORK.format(reach=there.reach, address=address, peer=peer))
        return lab.run("run", "study.toml", "--out", out, **there.env)

    before = Traces.now()
    refused = run("192.0.2.99")
    assert (
        refused.status == 3 and "192.0.2.99 is none of its addresses, which are: " in refused.said
    )
    assert run("127.0.0.1").status == 0
    found = summary(lab.work / "run")
    assert found["failed"] == []
    measured = {(one["platform"], one["cell"]["workload"]) for one in found["estimates"]}
    assert measured >= {("given", "tcp"), ("given", "rtt")}
    if own := _another_address():
        # Another machine as the other end, which is here the same one.
        reach = there.reach.replace("ssh", "ssh -4", 1)
        peer = f'[given.peer]\nreach = "{reach}"\naddress = "{own}"'
        ran = run("127.0.0.1", peer, "both")
        assert ran.status == 0 and summary(lab.work / "both")["failed"] == [], ran
    lab.assert_nothing_left(before)
    assert there.places() == []


def test_nothing_is_left_of_a_killed_run_on_either_side(lab: Lab, there: Machine) -> None:
    before = Traces.now()
    started = begin(lab, there, trials=8)
    started.until_trials(lab.work / "run", 3)
    before.agents.update(started.agents())
    started.stop(signal.SIGKILL)
    lab.assert_nothing_left(before)
    assert there.places() == []
    ran = lab.run("run", "--resume", "--out", "run", **there.env)
    assert ran.status == 0, ran


def test_an_agent_that_is_killed_there_fails_a_trial_and_the_run_goes_on(
    lab: Lab, there: Machine
) -> None:
    before = Traces.now()
    started = begin(lab, there, trials=6)
    run = lab.work / "run"
    started.until_trials(run, 3)
    agent = started.until(lambda: lab.find(r"agent-[0-9a-f]{64} node "), "the agent there")
    lab.kill(agent)
    ran = started.end()
    assert ran.status == 0, ran
    errors = [trial[6] for trial in trials(run) if trial[6]]
    assert errors and all("the connection to it (ssh -p" in one for one in errors), errors
    assert statuses(run, "given", "work") >= {"ok"}
    (state,) = [one for one in summary(run)["platforms"] if one["platform"] == "given"]
    assert state["vmm"] == f"a virtual machine ({there.reach})"
    lab.assert_nothing_left(before)
    assert there.places() == []


def test_a_connection_that_hangs_is_cut_on_both_sides(lab: Lab, there: Machine) -> None:
    """No word comes through: ssh notices after six seconds, the agent there after fifteen."""
    before = Traces.now()
    started = begin(lab, there, trials=4)
    run = lab.work / "run"
    started.until_trials(run, 2)
    sessions = there.sessions()
    for pid in sessions:
        os.kill(pid, signal.SIGSTOP)
    try:
        until(lambda: any(trial[6] for trial in trials(run)), "a trial to fail", 60)
        until(lambda: _of_session(lab) is None, "the agent there to end", 60)
    finally:
        for pid in sessions:
            if Path(f"/proc/{pid}").exists():
                os.kill(pid, signal.SIGKILL)
    ran = started.end()
    assert ran.status == 0, ran
    assert any("the connection to it" in trial[6] for trial in trials(run) if trial[6])
    lab.assert_nothing_left(before)
    assert there.places() == []


def test_an_agent_that_stands_still_fails_its_trial_in_bounded_time(
    lab: Lab, there: Machine
) -> None:
    """As in a machine that is suspended in mid trial: ssh's server answers still, or again."""
    before = Traces.now()
    started = begin(lab, there, trials=8)
    run = lab.work / "run"
    started.until_trials(run, 2)
    agent = started.until(lambda: _of_session(lab), "the agent there")
    os.kill(agent, signal.SIGSTOP)
    try:
        ran = started.end()
    finally:
        # It ends when it goes on, for nobody is there any more.
        os.kill(agent, signal.SIGCONT)
    assert ran.status == 0, ran
    errors = [trial[6] for trial in trials(run) if trial[6]]
    # In mid trial, or while it is made ready for the next one.
    silent = ("took longer than its limit", "did not answer", "the connection to it")
    assert errors and all(any(one in said for one in silent) for said in errors), errors
    until(lambda: _of_session(lab) is None, "the agent there to end", 30)
    lab.assert_nothing_left(before)
    assert there.places() == []


@pytest.mark.skipif(os.geteuid() != 0, reason="mounts are root's")
def test_where_no_program_may_be_run_is_said_before_anything_begins(lab: Lab) -> None:
    with machine_without_exec(lab) as there:
        ran = lab.run("weigh", "--quick", "--given", there.reach, "--", "true", **there.env)
        assert ran.status == 3, ran
        assert (
            "no program may be run from its ~/.cache/hypertare (a file system without" in ran.said
        )
        assert there.agents() == [] and there.places() == []


def test_cpu_time_of_the_process_that_a_machine_is_in_is_counted(lab: Lab, there: Machine) -> None:
    words = f"work of {lab.mark}"
    text = STUDY.format(reach=there.reach, trials=3).replace(
        'what = "a virtual machine"', f'outside = "{words}"'
    )
    lab.study(text)
    refused = lab.run("run", "study.toml", "--out", "run", **there.env)
    assert refused.status == 3, refused
    assert "no process of this host has that in its command line" in refused.said
    assert not (lab.work / "run").exists()
    # In place of a hypervisor: what works all the time, by the process below it.
    script = f": {words}; sh -c 'while :; do :; done'; true"
    with subprocess.Popen(("/bin/sh", "-c", script), start_new_session=True) as vmm:
        try:
            ran = lab.run("run", "study.toml", "--out", "run", **there.env)
        finally:
            os.killpg(vmm.pid, signal.SIGKILL)
    assert ran.status == 0, ran
    found = summary(lab.work / "run")
    assert found["failed"] == []
    used = {
        one["cell"]["workload"]: one["estimate"]
        for one in found["estimates"]
        if one["response"] == "outside_cpu"
    }
    # Of 0.3 s and 0.1 s in steps of 10 ms; this machine may have other things to do.
    assert set(used) == {"work", "burn"} and 0 < used["work"] < 10, used


def _of_session(lab: Lab) -> int | None:
    return lab.find(r"agent-[0-9a-f]{64} node ")


def _another_address() -> str | None:
    """Of this host beside that of loopback; none where it has none."""
    try:
        return address_towards("192.0.2.1")
    except MachineError:
        return None


def _umask(there: Machine) -> str:
    """Of whoever comes by ssh."""
    _, *words = there.reach.split()
    argv = [*there.env["HYPERTARE_SSH"].split(), *words, "umask"]
    said = subprocess.run(argv, capture_output=True, text=True, check=True).stdout
    return said.splitlines()[-1]
