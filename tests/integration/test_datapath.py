"""What moves a guest's packets: QEMU, a process of ours, the kernel; what it counts, and how it ends."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from hypertare.protocol.records import InterfaceState, NodeReady, ProbeValues, TaskResult
from hypertare.runs.store import Store
from tests.integration.lab import Lab, Traces, own_cache, summary, trials

pytestmark = [pytest.mark.guest, pytest.mark.timeout(900)]

LOCAL = """
name = "datapath"
question = "Which path does my guest's network take?"
{before}
[sut]
memory = "160M"
accelerator = "tcg"
platforms = ["native", "guest"]
{sut}
[workloads.bulk]
type = "stream"
direction = "both"
{bulk}
omit = "50ms"
[workloads.rtt]
type = "ping"
duration = "200ms"
[design]
warmup = 0
min_trials = 2
max_trials = 2
blocks_per_boot = 2
min_boots = 1
"""
MOVER = r"hypertare-agent datapath"


def study(lab: Lab, before: str = "", sut: str = "", bulk: str = 'duration = "400ms"') -> None:
    lab.study(LOCAL.format(before=before, sut=sut, bulk=bulk))


def values_of(run: Path, role: str) -> list[tuple[str, dict[str, float]]]:
    """Of every trial of a guest: its datapath, and what the task of this role reported."""
    with Store.open(run) as store:
        return [
            (trial.planned.cell["sut.datapath"], dict(one.values))
            for trial in store.trials()
            if trial.planned.platform == "guest"
            for one in store.records(trial.planned.id)
            if isinstance(one, TaskResult) and one.purpose is not None and one.purpose.role == role
        ]


def counted(run: Path, probe: str, node: str = "guest") -> list[tuple[str, str, dict[str, float]]]:
    """Of every trial of a guest: its datapath, its workload, and what the probe counted of this node."""
    with Store.open(run) as store:
        return [
            (str(trial.planned.cell.get("sut.datapath")), trial.planned.workload, one.values)
            for trial in store.trials()
            if trial.planned.platform == "guest"
            for one in store.records(trial.planned.id)
            if isinstance(one, ProbeValues) and one.probe == probe and one.node.startswith(node)
        ]


def test_a_process_of_ours_moves_packets_both_ways_notified_and_polling(lab: Lab) -> None:
    # Long enough that a stream moves something on a busy host, too.
    study(
        lab,
        'factors."sut.datapath" = ["qemu", "vhost-user", "sidecore"]',
        bulk='duration = "1500ms"',
    )
    before = Traces.now()
    ran = lab.run("run", "study.toml", "--out", "run")
    assert ran.status == 0, ran
    run = lab.work / "run"
    found = summary(run)
    assert found["failed"] == []
    states = {one["datapath"] for one in found["platforms"] if one["platform"] == "guest"}
    assert states == {"qemu", "vhost-user", "sidecore"}
    assert any("shares its CPU" in text for text in found["warnings"]) or os.cpu_count() != 2
    served = counted(run, "datapath")
    assert {path for path, _, _ in served} == {"vhost-user", "sidecore"}
    for path, workload, values in served:
        assert values["frames_in"] > 20 and values["frames_out"] > 20, (path, workload, values)
        assert values["calls"] > 0 and values["refused"] == 0
        # A core that polls needs not be reported.
        assert (values["kicks"] == 0) == (path == "sidecore"), values
        if workload == "bulk":
            assert min(values["bytes_in"], values["bytes_out"]) > 1e5
    for path, _, values in counted(run, "outside"):
        assert (values["datapath_s"] > 0) == (path != "qemu"), (path, values)
        parts = sum(values[f"{part}_s"] for part in ("vcpu", "vmm", "vhost", "datapath"))
        assert parts == pytest.approx(values["cpu_s"], rel=0.2, abs=0.05)
    responses = {one["response"] for one in found["estimates"] if one["platform"] == "guest"}
    assert {"datapath_kicks", "datapath_cpu", "vmm_cpu"} <= responses
    lab.assert_nothing_left(before)


def test_one_core_polls_for_two_guests(lab: Lab) -> None:
    # Long enough that both guests' streams run at once, also on a busy host.
    study(lab, sut='guests = 2\ndatapath = "sidecore"', bulk='duration = "6s"\nrate = "4 Mb/s"')
    before = Traces.now()
    ran = lab.run("run", "study.toml", "--out", "run")
    assert ran.status == 0, ran
    run = lab.work / "run"
    assert summary(run)["failed"] == []
    for guest in ("guest1-1", "guest1-2"):
        served = counted(run, "datapath", guest)
        assert {workload for _, workload, _ in served} == {"bulk", "rtt"}
        for _, workload, values in served:
            # Few on a busy host, where a round trip takes a fifth of a second.
            assert min(values["frames_in"], values["frames_out"]) > 3, (guest, workload, values)
            assert values["kicks"] == 0 and values["refused"] == 0
    # Its time is reported once, half of it of each, though nobody knows whose packets it was for.
    first, second = (
        [values["datapath_s"] for _, _, values in counted(run, "outside", guest)]
        for guest in ("guest1-1", "guest1-2")
    )
    # It is read for one after the other, and polls meanwhile.
    assert first == pytest.approx(second, rel=0.01, abs=0.02) and min(first) > 0
    lab.assert_nothing_left(before)


def test_a_datapath_that_is_killed_ends_its_trial_by_name(lab: Lab) -> None:
    study(lab, sut='datapath = "vhost-user"', bulk='duration = "20s"')
    started = lab.start("run", "study.toml", "--out", "run")
    mover = started.until(lambda: lab.find(MOVER), "what moves packets to be started")
    run = lab.work / "run"
    started.until(lambda: trials(run) or _is_in_trial(lab), "a trial to be under way")
    lab.kill(mover)
    started.until(lambda: any(trial[6] for trial in trials(run)), "the trial to fail")
    errors = [str(trial[6]) for trial in trials(run) if trial[6]]
    started.stop(signal.SIGINT)
    started.end()
    assert "the datapath of guest1 ended: its process was killed by SIGKILL" in errors[0], errors


def _is_in_trial(lab: Lab) -> bool:
    """A task works."""
    return lab.find(r"hypertare-agent task") is not None


def test_nothing_is_left_of_a_datapath_when_all_is_killed(lab: Lab) -> None:
    study(lab, sut='datapath = "sidecore"', bulk='duration = "20s"')
    before = Traces.now()
    started = lab.start("run", "study.toml", "--out", "run")
    started.until(lambda: lab.find(MOVER), "what moves packets to be started")
    started.until_guest()
    before.agents.update(started.agents())
    started.process.kill()
    started.process.wait()
    lab.assert_nothing_left(before)


@pytest.mark.skipif(Path("/dev/vhost-net").exists(), reason="this host has vhost-net")
def test_vhost_is_refused_where_the_host_has_none(lab: Lab) -> None:
    study(lab, sut='datapath = "vhost"')
    ran = lab.run("run", "study.toml", "--out", "run")
    assert ran.status == 3, ran
    assert "sut.datapath asks for vhost, but this host has no /dev/vhost-net." in ran.said
    assert "As root: modprobe vhost_net" in ran.said and "machine = 'emulated'" in ran.said


@pytest.mark.skipif((os.cpu_count() or 1) < 2, reason="a guest here has as many CPUs as this host")
def test_a_card_without_the_queues_that_were_asked_for_is_refused_by_name(lab: Lab) -> None:
    """A guest's kernel takes as many as it has CPUs online, and says nothing."""
    study(lab, sut='cpus = 2\nqueues = 2\nkernel_args = ["maxcpus=1"]')
    before = Traces.now()
    ran = lab.run("run", "study.toml", "--out", "run")
    assert ran.status != 0, ran
    assert "its eth0 uses 1 queues to receive and 1 to send, but sut.queues asks for 2" in ran.said
    lab.assert_nothing_left(before)


VIRTUAL = """
name = "every-path"
question = "What does a packet cost, by the path that it takes?"
machine = "emulated"
factors."sut.datapath" = ["qemu", "vhost", "vhost-user", "sidecore"]
[sut]
platforms = ["native", "guest"]
memory = "192M"
cpus = 4
guest_cpus = 2
queues = 2
datapath_apart = true
[workloads.rtt]
type = "ping"
duration = "40ms"
[workloads.past-card]
type = "ping"
protocol = "frame"
via = "shared"
duration = "40ms"
[workloads.bulk]
type = "stream"
direction = "both"
flows = 4
duration = "40ms"
omit = "10ms"
interval = "10ms"
[design]
warmup = 0
min_trials = 2
max_trials = 2
blocks_per_boot = 2
min_boots = 1
"""
PATHS = ("qemu", "vhost", "vhost-user", "sidecore")
SERVED = ("vhost-user", "sidecore")
"""By a process beside QEMU."""


@pytest.fixture(scope="module")
def virtual(shared: Lab) -> Path:
    """One run of every path: of four CPUs the first is the peers', the next moves packets."""
    shared.env["HYPERTARE_CACHE"] = own_cache(shared, "cache")
    study = shared.study(VIRTUAL)
    ran = shared.run("run", study, "--fresh", "--out", "run", "--json")
    assert ran.status == 0 and ran.json["failed"] == [], ran.said
    assert ran.json["clock"] == "virtual"
    return shared.work / "run"


def bench_records(run: Path, kind: type[Any]) -> list[Any]:
    with Store.open(run) as store:
        return [one for _, bench in store.benches() for one in bench if isinstance(one, kind)]


@pytest.mark.xdist_group("emulated")
def test_each_path_is_the_one_that_was_asked_for_and_has_a_cpu_for_itself(virtual: Path) -> None:
    guests = {ready.datapath: ready for ready in bench_records(virtual, NodeReady) if ready.vmm}
    assert guests.keys() == set(PATHS)
    for path, ready in guests.items():
        assert ready.datapath_cpus == (1,) and ready.placed.on == (2, 3), (path, ready)
        assert any("mq=on" in word for word in ready.vmm_argv)
    for path, workload, cpus in counted(virtual, "stat", "host"):
        assert cpus["cpu1.guest_s"] == 0 < cpus["cpu2.guest_s"] + cpus["cpu3.guest_s"]
        assert path != "sidecore" or cpus["cpu1.idle_s"] == 0
        # Past the card a thread of the machine's looks for frames all the time, there too.
        assert workload != "past-card" or cpus["cpu1.busy_s"] >= 0.02, (path, cpus)
    states = [s for s in summary(virtual)["platforms"] if s["platform"] == "guest"]
    assert {s["datapath"] for s in states} == set(PATHS)
    assert all(s["datapath_cpus"] == [1] for s in states)
    assert all(s["placed"] == {"cpus": 2, "on": [2, 3]} for s in states)
    assert not any("shares its CPU" in text for text in summary(virtual)["warnings"])


@pytest.mark.xdist_group("emulated")
def test_the_time_of_what_moves_packets_is_counted_where_it_is_taken(virtual: Path) -> None:
    outside = [one for one in counted(virtual, "outside") if one[1] != "past-card"]
    assert {path for path, _, _ in outside} == set(PATHS)
    for path, _, values in outside:
        assert (values["vhost_s"] > 0) == (path == "vhost"), (path, values)
        assert (values["datapath_s"] > 0) == (path in SERVED), (path, values)
    shares = shares_of_time(virtual, "outside", "datapath_s")
    # Its kernel counts a thread that never sleeps by ticks of 4 ms, and what interrupts it not at all.
    assert all(share > 0.9 for path, share in shares if path == "sidecore"), shares
    assert all(share < 0.9 for path, share in shares if path == "vhost-user"), shares


@pytest.mark.xdist_group("emulated")
def test_packets_come_and_go_by_every_queue_that_was_asked_for(virtual: Path) -> None:
    """By the names that the guest's driver gives its interrupts."""
    cards = [one for one in bench_records(virtual, InterfaceState) if one.node.startswith("guest")]
    assert len(cards) == len(PATHS)
    assert all((one.rx_queues, one.tx_queues) == (2, 2) for one in cards)
    bulk = [one for one in counted(virtual, "interrupts") if one[1] == "bulk"]
    assert {path for path, _, _ in bulk} == set(PATHS)
    for path, _, values in bulk:
        for way in ("input", "output"):
            by_queue = [
                next(count for name, count in values.items() if name.endswith(f"{way}.{queue}"))
                for queue in range(2)
            ]
            assert min(by_queue) > 0.1 * sum(by_queue), (path, values)


@pytest.mark.xdist_group("emulated")
def test_frames_go_by_the_path_and_past_the_card_beside_it(virtual: Path) -> None:
    # Past the card it is the core that polls already, and with another path the machine itself.
    relayed = values_of(virtual, "relay")
    assert {path for path, _ in relayed} == set(PATHS)
    for path, values in relayed:
        assert values["polled"] == (path == "sidecore"), (path, values)
        assert values["taken_packets"] == values["fed_packets"] > 20
        own_time = values["user_s"] + values["system_s"]
        assert (own_time < 0.01) == (path == "sidecore"), (path, values)
    for path, workload, values in counted(virtual, "datapath"):
        if workload == "past-card":
            # A hundred and more pass beside it; by it comes now and then what a bridge sends to all.
            assert values["frames_in"] <= 2 and values["frames_out"] <= 2, (path, values)
            continue
        assert (values["kicks"] == 0) == (path == "sidecore"), (path, values)
        assert values["frames_in"] > 20 and values["frames_out"] > 20


@pytest.mark.xdist_group("emulated")
def test_what_a_packet_costs_is_reported_of_every_path(virtual: Path) -> None:
    """One round trip is a packet each way. Those of QEMU leave the guest more often, and interrupt it."""
    means = means_of_guests(virtual, "sut.datapath", "rtt")
    for path in PATHS:
        # One for each that comes in and, where nothing waits, one for each that went out.
        assert 0.5 <= means[path, "interrupts_per_packet"] < 1.5, means
        assert means[path, "exits_per_packet"] > (0 if path == "sidecore" else 1), means
        assert means[path, "guest_cpu_per_packet"] > means[path, "vmm_cpu_per_packet"] > 0
        assert (means.get((path, "kicks_per_packet"), 0) > 0) == (path == "vhost-user")
        assert (means[path, "backend_cpu_per_packet"] > 0) == (path != "qemu")
    assert means["vhost-user", "kicks_per_packet"] == pytest.approx(0.5, abs=0.1)
    assert means["qemu", "vmm_cpu_per_packet"] > 2 * means["vhost", "vmm_cpu_per_packet"]
    assert means["vhost", "rtt_p50"] < means["qemu", "rtt_p50"]
    found = {(one["platform"], one["response"]) for one in summary(virtual)["estimates"]}
    assert not any(p == "native" and name.endswith("_per_packet") for p, name in found)
    # A core that polls is nearer to native's round trips, and no guest's are as quick as those.
    later = {
        s["cell"]["sut.datapath"]: s["difference"]
        for s in summary(virtual)["shifts"]
        if s["share"] == 0.5 and s["cell"]["workload"] == "rtt"
    }
    assert 0 < later["sidecore"] < later["vhost-user"], later
    assert 0 <= means["vhost-user", "near_share"] <= means["sidecore", "near_share"] < 0.95


POLLING = """
name = "polling"
question = "What does vhost's polling buy?"
machine = "emulated"
factors."sut.poll_us" = [0, 200]
[sut]
platforms = ["native", "guest"]
memory = "192M"
cpus = 3
guest_cpus = 1
datapath = "vhost"
[workloads.rtt]
type = "ping"
duration = "40ms"
[design]
warmup = 0
min_trials = 2
max_trials = 2
blocks_per_boot = 2
min_boots = 1
"""


@pytest.mark.release
@pytest.mark.xdist_group("emulated")
def test_vhost_that_looks_for_more_work_takes_more_cpu_and_answers_sooner(lab: Lab) -> None:
    """On three CPUs: on two it takes the peer's time, and a single boot may show the contrary."""
    ran = lab.run("run", lab.study(POLLING), "--out", "run", "--json")
    assert ran.status == 0 and ran.json["failed"] == [], ran.said
    run = lab.work / "run"
    said = {
        word.rpartition("poll-us=")[2].partition(",")[0]
        for one in bench_records(run, NodeReady)
        for word in one.vmm_argv
        if "vhost=on" in word
    }
    assert said == {"0", "200"}
    means = means_of_guests(run, "sut.poll_us", "rtt")
    assert means[200, "backend_cpu_per_packet"] > 1.5 * means[0, "backend_cpu_per_packet"] > 0
    assert means[200, "rtt_p50"] < means[0, "rtt_p50"]


def means_of_guests(run: Path, factor: str, workload: str) -> dict[tuple[Any, str], float]:
    """By level and response."""
    return {
        (one["cell"][factor], one["response"]): one["estimate"]
        for one in summary(run)["estimates"]
        if one["platform"] == "guest" and one["cell"]["workload"] == workload
    }


def shares_of_time(run: Path, probe: str, value: str) -> list[tuple[str, float]]:
    """Of every trial of a guest: its datapath, and a counter of seconds over those that passed."""
    with Store.open(run) as store:
        return [
            (str(trial.planned.cell["sut.datapath"]), one.values[value] / one.elapsed_s)
            for trial in store.trials()
            if trial.planned.platform == "guest"
            for one in store.records(trial.planned.id)
            if isinstance(one, ProbeValues) and one.probe == probe
        ]
