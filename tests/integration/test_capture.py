"""Frames from a generator to a capture program: sent is captured and dropped by place, to the frame."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from hypertare.base.paths import agent_binary
from hypertare.protocol.phase import Phase
from hypertare.runs.store import Store
from hypertare.workloads.packets import account
from tests.integration.lab import Lab, summary

STUDY = """
name = "frames"
question = "What does a capture program lose?"
[sut]
platforms = ["native"]
{workloads}
[design]
warmup = 0
min_trials = 2
max_trials = 2
"""
PACED = """
[workloads.packet]
type = "capture"
rate = "5.12M"
duration = "500ms"
omit = "50ms"
[workloads.socket]
type = "capture"
via = "socket"
rate = "5.12M"
duration = "500ms"
omit = "50ms"
"""
OVERRUN = """
[workloads.tiny]
type = "capture"
ring = "4K"
duration = "300ms"
omit = "50ms"
"""
ROUND_TRIPS = """
[workloads.packet]
type = "ping"
protocol = "frame"
duration = "200ms"
[workloads.socket]
type = "ping"
protocol = "frame"
via = "socket"
direction = "receive"
duration = "200ms"
"""


@dataclass(frozen=True)
class Ends:
    """Frames of a trial as both ends report, whether they count or not."""

    handed_over: float
    captured: float
    dropped: float


def ends(run: Path) -> list[Ends]:
    """Of every trial."""
    with Store.open(run) as store:
        phases = [Phase.of(store.records(trial.planned.id)) for trial in store.trials()]
    return [
        Ends(
            _total(phase, "send", "all_packets") - _total(phase, "send", "send_errors"),
            _total(phase, "receive", "all_packets"),
            _total(phase, "receive", "all_drops"),
        )
        for phase in phases
    ]


def _total(phase: Phase, role: str, value: str) -> float:
    found = phase.total(role, value)
    assert found is not None
    return found


def estimates(run: Path) -> dict[tuple[str, str], float]:
    """By workload and response."""
    found = summary(run)
    assert found["failed"] == [], found["failed"]
    return {
        (one["cell"]["workload"], one["response"]): one["estimate"] for one in found["estimates"]
    }


def ran(lab: Lab, workloads: str) -> Path:
    lab.study(STUDY.format(workloads=workloads))
    ran = lab.run("run", "study.toml", "--out", "run")
    assert ran.status == 0, ran
    return lab.work / "run"


@pytest.mark.runs
def test_ten_thousand_frames_a_second_are_captured_without_loss(lab: Lab) -> None:
    run = ran(lab, PACED)
    found = estimates(run)
    assert found["packet", "loss"] == found["packet", "capture_drops"] == 0
    for workload in ("packet", "socket"):
        # A machine that others share may stand still for a tenth of a second of the half.
        assert found[workload, "packet_rate"] == pytest.approx(10_000, rel=0.3)
        assert found[workload, "cpu_per_packet"] > 0
    for one in ends(run):
        # Without root a socket buffer holds what arrives in 50 ms, and a busy host may take longer.
        assert one.handed_over == one.captured + one.dropped >= 3000, one


@pytest.mark.runs
def test_a_ring_that_is_overrun_reports_what_it_dropped(lab: Lab) -> None:
    run = ran(lab, OVERRUN)
    found = estimates(run)
    assert 0 < found["tiny", "capture_drops"] < 1
    for one in ends(run):
        assert one.handed_over == one.captured + one.dropped and one.dropped > 0, one


@pytest.mark.runs
def test_a_round_trip_as_a_capture_program_sees_it(lab: Lab) -> None:
    found = estimates(ran(lab, ROUND_TRIPS))
    for workload in ("packet", "socket"):
        assert found[workload, "loss"] == 0
        assert 0 < found[workload, "rtt_p50"] < 0.01


SANDBOX = ("unshare", "--user", "--map-root-user", "--net")
VETH = """
ip link add name near type veth peer name far
ip link set far address 02:00:00:00:00:02
ip link set near up
ip link set far up
"""


@pytest.fixture
def agent() -> Iterator[str]:
    if subprocess.run([*SANDBOX, "true"], capture_output=True, check=False).returncode != 0:
        pytest.skip("no user namespaces here")
    yield str(agent_binary())


def in_sandbox(script: str) -> subprocess.CompletedProcess[str]:
    """A shell with a pair of interfaces of its own, each the other's wire."""
    argv = [*SANDBOX, "sh", "-ec", VETH + script]
    return subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)


def reported(out: str) -> list[dict[str, Any]]:
    return [json.loads(line)["values"] for line in out.splitlines()]


def test_two_sessions_on_one_interface_do_not_mix(agent: str, tmp_path: Path) -> None:
    captures = "".join(
        f"{agent} capture far --session {number} --via {via} --duration 30 --json 2>>{tmp_path}/said &\n"
        for number, via in ((1, "packet"), (2, "socket"))
    )
    waits = f"until [ $(grep -c capturing {tmp_path}/said) = 2 ]; do sleep 0.05; done\n"
    to = f"{agent} generate near --to 02:00:00:00:00:02 --duration 1 --json"
    sends = "".join(
        f"{to} --session {number} --rate {rate} >&2 &\n"
        for number, rate in ((1, "512K"), (2, "1024K"), (3, "2048K"))
    )
    ran = in_sandbox(f"touch {tmp_path}/said\n{captures}{waits}{sends}wait")
    assert ran.returncode == 0, ran
    captured, sent = reported(ran.stdout), reported(ran.stderr)
    assert len(captured) == 2 and len(sent) == 3, ran
    # The third session has nobody who captures it.
    there = sorted(one["sent_packets"] for one in sent)[:2]
    assert sorted(one["received_packets"] for one in captured) == there
    assert all(one["lost_packets"] == one["foreign_packets"] == 0 for one in captured)


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("generate nope --to 02:00:00:00:00:01", "there is no interface nope"),
        ("generate near --to ff:ff:ff:ff:ff:ff", "not a MAC address of one interface"),
        ("generate near --to 02:00:00:00:00:01 --frame 1515", "from 60 to 1514"),
        ("generate near --to 02:00:00:00:00:01 --duration 1e9", "86400 seconds"),
        ("capture near --ring 5000", "whole pages"),
        ("capture near --ring 1G", "whole pages"),
        ("capture near --duration 0.2", "no sender came to near"),
    ],
)
def test_what_cannot_be_done_is_said(agent: str, command: str, said: str) -> None:
    ran = in_sandbox(f"exec {agent} {command}")
    assert ran.returncode == 1 and said in ran.stderr, ran
    assert "panic" not in ran.stderr


def test_without_permission_it_says_what_to_do(agent: str) -> None:
    drop = "setpriv --inh-caps=-all --bounding-set=-all"
    ran = in_sandbox(f"exec {drop} {agent} capture near --duration 1")
    assert ran.returncode == 1 and "CAP_NET_RAW" in ran.stderr, ran


VIRTUAL = """
name = "frames"
question = "What does a capture program lose?"
machine = "emulated"
[sut]
memory = "192M"
platforms = ["native", "guest"]
[workloads.packet]
type = "capture"
rate = "1M"
duration = "50ms"
omit = "5ms"
[workloads.socket]
type = "capture"
via = "socket"
rate = "1M"
duration = "50ms"
omit = "5ms"
[workloads.rtt]
type = "ping"
protocol = "frame"
duration = "30ms"
[design]
warmup = 0
min_trials = 2
max_trials = 2
blocks_per_boot = 2
min_boots = 1
"""


@pytest.mark.guest
@pytest.mark.xdist_group("emulated")
@pytest.mark.timeout(900)
def test_in_virtual_time_every_frame_is_accounted_for(lab: Lab) -> None:
    ran = lab.run("run", lab.study(VIRTUAL), "--fresh", "--out", "run")
    assert ran.status == 0, ran
    assert summary(lab.work / "run")["failed"] == []
    with Store.open(lab.work / "run") as store:
        found = [trial.values for trial in store.trials()]
        captures = [t.planned for t in store.trials() if t.planned.workload != "rtt"]
        made = [
            account(store.records(one.id), "guest1" if one.platform == "guest" else "host")
            for one in captures
        ]
    assert len(made) == 8 and all(one and one.unexplained == 0 for one in made), made
    assert {values["loss"] for values in found} == {0.0}
