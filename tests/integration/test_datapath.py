"""What moves a guest's packets: QEMU, a process of ours, the kernel; what it counts, and how it ends."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from hypertare.protocol.records import NodeReady, ProbeValues
from hypertare.runs.store import Store
from tests.integration.lab import Lab, Traces, summary, trials
from tests.integration.test_emulated import own_cache

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
duration = "{duration}"
omit = "50ms"
[workloads.rtt]
type = "ping"
duration = "200ms"
[design]
warmup = 0
min_trials = {trials}
max_trials = {trials}
blocks_per_boot = {trials}
min_boots = 1
"""
MOVER = r"hypertare-agent datapath"


def study(
    lab: Lab, before: str = "", sut: str = "", duration: str = "400ms", trials: int = 2
) -> None:
    lab.study(LOCAL.format(before=before, sut=sut, duration=duration, trials=trials))


def counted(run: Path, probe: str) -> list[tuple[str, str, dict[str, float]]]:
    """Of every trial of a guest: its datapath, its workload, and what the probe counted."""
    with Store.open(run) as store:
        return [
            (str(trial.planned.cell.get("sut.datapath")), trial.planned.workload, one.values)
            for trial in store.trials()
            if trial.planned.platform == "guest"
            for one in store.records(trial.planned.id)
            if isinstance(one, ProbeValues) and one.probe == probe
        ]


def test_a_process_of_ours_moves_packets_both_ways_notified_and_polling(lab: Lab) -> None:
    study(lab, 'factors."sut.datapath" = ["qemu", "vhost-user", "sidecore"]')
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
        # A core that polls needs not be told.
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


def test_a_datapath_that_is_killed_ends_its_trial_by_name(lab: Lab) -> None:
    study(lab, sut='datapath = "vhost-user"', duration="20s")
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
    study(lab, sut='datapath = "sidecore"', duration="20s")
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


VIRTUAL = """
name = "vhost"
question = "Which path does a KVM guest's network take?"
machine = "emulated"
factors."sut.datapath" = ["qemu", "vhost", "vhost-user"]
[sut]
platforms = ["native", "guest"]
memory = "192M"
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


@pytest.mark.xdist_group("emulated")
def test_the_kernel_moves_packets_of_a_kvm_guest_and_that_repeats(lab: Lab) -> None:
    """A known fingerprint that is run afresh and tells something else ends a run with status 5."""
    lab.env["HYPERTARE_CACHE"] = own_cache(lab, "cache")
    lab.study(VIRTUAL)
    for name in ("one", "two"):
        ran = lab.run("run", "study.toml", "--jobs", "2", "--fresh", "--out", name, "--json")
        assert ran.status == 0, ran.said
        assert ran.json["clock"] == "virtual" and ran.json["failed"] == []
    both = [_records(lab.work / name) for name in ("one", "two")]
    assert both[0] == both[1]
    with Store.open(lab.work / "one") as store:
        ready = [one for _, bench in store.benches() for one in bench if isinstance(one, NodeReady)]
    assert {one.datapath for one in ready if one.vmm} == {"qemu", "vhost", "vhost-user"}
    split = {path: values for path, _, values in counted(lab.work / "one", "outside")}
    for path, part in (("vhost", "vhost_s"), ("vhost-user", "datapath_s")):
        for other, values in split.items():
            assert (values[part] > 0) == (path == other), (other, values)


def _records(run: Path) -> list[Any]:
    with Store.open(run) as store:
        return [store.records(trial.planned.id) for trial in store.trials()]
