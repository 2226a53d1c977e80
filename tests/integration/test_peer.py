"""`weigh --peer`: a command that speaks with a server across the bench's network, on every platform."""

from __future__ import annotations

import re
import signal
from pathlib import Path
from typing import Any

import pytest

from hypertare.protocol.records import ProbeValues, TaskResult
from hypertare.runs.store import Store
from tests.integration.lab import Lab, Traces, statuses, summary, trials

SERVER = """
import os, socket, sys
sent = os.environ["HYPERTARE_ADDRESS"]
assert "HYPERTARE_PEER" not in os.environ
assert "OPENBLAS_NUM_THREADS" not in os.environ
listener = socket.create_server((sent, 5000))
print("serves at", sent, flush=True)
while True:
    connection, _ = listener.accept()
    with connection:
        while got := connection.recv(1 << 16):
            connection.sendall(got)
"""
CLIENT = """
import os, socket
assert "HYPERTARE_ADDRESS" not in os.environ
peer = os.environ["HYPERTARE_PEER"]
with socket.create_connection((peer, 5000), timeout=20) as connection:
    own = connection.getsockname()[0]
    assert own != peer and own.rsplit(".", 1)[0] == peer.rsplit(".", 1)[0], own
    for _ in range(20):
        connection.sendall(b"x" * 1000)
        got = 0
        while got < 1000:
            got += len(connection.recv(1000))
print("came from", own)
"""
FEW = ("--warmup", "0", "--min-trials", "2", "--max-trials", "2", "--out", "run")
HERE = ("--on", "native,container", *FEW)
EMULATED = ("--accelerator", "tcg", "--memory", "192M")


def programs(lab: Lab) -> None:
    (lab.work / "server.py").write_text(SERVER)
    (lab.work / "client.py").write_text(CLIENT)


def errors(run: Path) -> set[str]:
    return {str(trial[6]) for trial in trials(run) if trial[6]}


def printed(run: Path, task: str) -> set[str]:
    """What the tasks of this name wrote to standard output."""
    with Store.open(run) as store:
        return {
            record.text["stdout"]
            for trial in store.trials()
            for record in store.records(trial.planned.id)
            if isinstance(record, TaskResult) and record.task == task and record.text
        }


@pytest.mark.runs
def test_a_server_answers_natively_and_in_a_container_and_nothing_is_left(lab: Lab) -> None:
    programs(lab)
    before = Traces.now()
    words = ("--peer", f"exec {lab.python} server.py", *HERE, "--log")
    ran = lab.run("weigh", *words, "--", lab.python, "client.py")
    assert ran.status == 0, ran
    run = lab.work / "run"
    assert summary(run)["failed"] == []
    assert statuses(run, "native", "command") | statuses(run, "container", "command") == {"ok"}
    # Each platform has an address of its own, and all have the same peer.
    assert len(printed(run, "command")) == 2
    assert len(printed(run, "serve")) == 1
    logs = [path.read_text() for path in (run / "output").iterdir()]
    assert all("== peer, serve, stdout\nserves at" in text for text in logs), logs
    elapsed = {one["platform"] for one in summary(run)["estimates"] if one["response"] == "elapsed"}
    assert elapsed == {"native", "container"}
    lab.assert_nothing_left(before)


LISTEN_AND_ACCEPT = "import socket; socket.create_server(('0.0.0.0', 5000)).accept()[0]"


@pytest.mark.runs
def test_a_server_that_serves_once_may_be_done_before_the_command(lab: Lab) -> None:
    server = f"{LISTEN_AND_ACCEPT}.sendall(b'once')"
    client = (
        "import os, socket, time; c = socket.create_connection((os.environ['HYPERTARE_PEER'], 5000)); "
        "assert c.recv(9) == b'once' and c.recv(9) == b''; time.sleep(0.1)"
    )
    peer = ("--peer", f'exec {lab.python} -c "{server}"', "--on", "native", *FEW)
    ran = lab.run("weigh", *peer, "--", lab.python, "-c", client)
    assert ran.status == 0, ran
    assert summary(lab.work / "run")["failed"] == []


LISTEN = "import socket; socket.create_server(('0.0.0.0', 5000))"


@pytest.mark.runs
@pytest.mark.parametrize(
    ("server", "client", "said"),
    [
        ("echo out of luck >&2; exit 3", "true", "ends with exit status 3 before it listened"),
        ("sleep 100 & exit 0", "true", "it must stay in the foreground"),
        (
            "echo asleep >&2; exec sleep 100",
            "true",
            "had no TCP or UDP socket to listen at after 10 s",
        ),
        (
            "exec {python} -c \"import socket, time; s = socket.create_server(('127.0.0.1', 5000)); "
            'time.sleep(100)"',
            "true",
            "had only one on loopback to listen at after 10 s",
        ),
        (
            "exec {python} -c \"import os, socket; s = socket.create_server(('0.0.0.0', 5000)); "
            's.accept(); os.abort()"',
            "exec 3<>/dev/tcp/$HYPERTARE_PEER/5000; read -u 3; sleep 30",
            "was killed by SIGABRT while it was needed",
        ),
        (
            "exec {python} -c \"import socket; s = socket.create_server(('0.0.0.0', 5000)); "
            's.accept(); raise SystemExit(7)"',
            # It fails first, for that reason.
            "exec 3<>/dev/tcp/$HYPERTARE_PEER/5000; read -u 3; exit 4",
            "ends with exit status 7 while it was needed",
        ),
    ],
    ids=["ends", "forks", "opens no socket", "on loopback", "dies", "client dies of it"],
)
def test_a_server_that_fails_fails_the_trial_with_the_reason(
    lab: Lab, server: str, client: str, said: str
) -> None:
    before = Traces.now()
    # One trial is enough of those that wait for 10 s.
    peer = ("--peer", server.format(python=lab.python), "--time-limit", "2s")
    ran = lab.run("weigh", *peer, "--on", "native", *FEW, "--", "bash", "-c", client)
    assert ran.status != 0, ran
    assert said in ran.said, ran
    if ">&2" in server:
        assert re.search("left out: (out of luck|asleep)", ran.said), ran
    lab.assert_nothing_left(before)


@pytest.mark.runs
def test_a_client_that_gets_another_answer_fails_and_the_log_has_what_the_server_said(
    lab: Lab,
) -> None:
    programs(lab)
    (lab.work / "server.py").write_text(SERVER.replace("sendall(got)", "sendall(b'y' * 999)"))
    words = ("--peer", f"exec {lab.python} server.py", "--on", "native", *FEW, "--log")
    script = f"timeout 2 {lab.python} client.py"
    ran = lab.run("weigh", *words, "--", "sh", "-c", script)
    assert ran.status != 0, ran
    assert errors(lab.work / "run") and "task command on host failed" in ran.said, ran
    assert all("serves at" in text for text in printed(lab.work / "run", "serve"))


@pytest.mark.runs
@pytest.mark.parametrize("how", ["interrupted", "killed"])
def test_nothing_is_left_of_a_server_when_the_run_ends_early(lab: Lab, how: str) -> None:
    programs(lab)
    before = Traces.now()
    words = ("--peer", f"setsid -w {lab.python} server.py", "--on", "native", *FEW)
    started = lab.start("weigh", *words, "--", "sleep", "100")
    started.until(lambda: lab.find(r"^\S*python\S* server.py"), "the server to be started")
    started.until(lambda: lab.find(r"^sleep 100"), "the command to be started")
    before.agents.update(started.agents())
    if how == "interrupted":
        # The second drops the trial that the first would wait for.
        started.process.send_signal(signal.SIGINT)
        started.until(lambda: "ending this trial" in started.said(), "an answer")
        started.stop(signal.SIGINT)
    else:
        started.process.kill()
        started.process.wait()
    lab.assert_nothing_left(before)


@pytest.mark.runs
def test_a_server_has_the_walls_of_a_command(lab: Lab) -> None:
    """Its writes are forgotten, and the settings of this host are not its to change."""
    tries = (
        "import os, pathlib\n"
        "pathlib.Path('mark').write_text('x')\n"
        "for place in ('/proc/sys/kernel/hostname', '/sys/kernel/mm/transparent_hugepage/enabled'):\n"
        "    try:\n"
        "        pathlib.Path(place).write_text('never')\n"
        "    except OSError:\n"
        "        continue\n"
        "    raise SystemExit('it may write ' + place)\n"
    )
    programs(lab)
    (lab.work / "server.py").write_text(tries + SERVER)
    words = ("--peer", f"exec {lab.python} server.py", "--on", "native", *FEW)
    ran = lab.run("weigh", *words, "--", lab.python, "client.py")
    assert ran.status == 0, ran
    assert not (lab.work / "mark").exists()


@pytest.mark.guest
@pytest.mark.timeout(900)
def test_datapaths_of_a_guest_are_weighed_beside_native(lab: Lab) -> None:
    programs(lab)
    before = Traces.now()
    words = ("--peer", f"exec {lab.python} server.py", "--datapath", "qemu,vhost-user", *EMULATED)
    ran = lab.run("weigh", *words, *FEW, "--", lab.python, "client.py")
    assert ran.status == 0, ran
    run = lab.work / "run"
    found = summary(run)
    assert found["failed"] == []
    for platform in ("native", "container", "guest"):
        assert statuses(run, platform, "command") == {"ok"}
    states = {one["datapath"] for one in found["platforms"] if one["platform"] == "guest"}
    assert states == {"qemu", "vhost-user"}
    of_guests: list[Any] = [
        one["cell"]["sut.datapath"]
        for one in found["estimates"]
        if one["platform"] == "guest" and one["response"] == "elapsed" and one["cost"] is not None
    ]
    assert sorted(of_guests) == ["qemu", "vhost-user"]
    # What was served by a process of ours was seen by it.
    moved = frames(run)
    assert moved and min(moved) > 40, moved
    # Two guests, a container and the host itself.
    assert len(printed(run, "command")) == 4
    lab.assert_nothing_left(before)


def frames(run: Path) -> list[float]:
    with Store.open(run) as store:
        return [
            one.values["frames_in"] + one.values["frames_out"]
            for trial in store.trials()
            for one in store.records(trial.planned.id)
            if isinstance(one, ProbeValues) and one.probe == "datapath"
        ]


@pytest.mark.guest
@pytest.mark.timeout(900)
def test_a_server_that_dies_fails_a_guests_trial_too(lab: Lab) -> None:
    peer = (
        f"exec {lab.python} -c \"import socket; s = socket.create_server(('0.0.0.0', 5000)); "
        "s.accept(); raise SystemExit('gone')\""
    )
    client = "exec 3<>/dev/tcp/$HYPERTARE_PEER/5000; read -u 3; exit 4"
    words = ("--peer", peer, "--on", "native,guest", *EMULATED, *FEW)
    ran = lab.run("weigh", *words, "--", "bash", "-c", client)
    assert ran.status != 0, ran
    assert any(
        "ended with exit status 1 while it was needed" in text for text in errors(lab.work / "run")
    ), errors(lab.work / "run")
