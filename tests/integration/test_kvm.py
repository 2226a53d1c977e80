"""Real KVM in virtual time: an emulated machine that is a KVM host, and what it refuses."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import pytest

from hypertare.base import paths
from hypertare.design.pc import Pc
from hypertare.design.profiles import GUEST_INITRAMFS, GUEST_KERNEL
from hypertare.machines.batch import Batch
from hypertare.machines.emulated import EmulatedMachine, Output
from hypertare.machines.executor import Threads
from hypertare.machines.image import emulator
from hypertare.machines.image.build import build
from hypertare.machines.image.cache import Cache
from hypertare.platforms.guest import INNER_CPU, KVM_HOST
from hypertare.protocol import plan
from hypertare.protocol.records import BenchReady, KnobOutcome, NodeReady, ProbeValues
from hypertare.runs.store import Store
from tests.integration.lab import Lab

pytestmark = [pytest.mark.guest, pytest.mark.xdist_group("emulated")]

STUDY = """
name = "kvm"
question = "What does a guest cost, by its page tables?"
machine = "emulated"
[sut]
platforms = ["native", "guest"]
memory = "192M"
pages = "2M"
[workloads.spin]
type = "burn"
duration = "20ms"
[workloads.program]
type = "command"
command = ["hypertare-agent", "burn", "--time", "0.02"]
[factors]
"sut.paging" = ["nested", "shadow"]
[design]
warmup = 0
min_trials = 2
max_trials = 2
blocks_per_boot = 2
"""


@pytest.mark.timeout(900)
def test_guests_with_either_page_tables_are_weighed(lab: Lab) -> None:
    ran = lab.run("run", lab.study(STUDY), "--jobs", "2", "--fresh", "--out", "run", "--json")
    assert ran.status == 0, ran.said
    assert ran.json["clock"] == "virtual" and ran.json["failed"] == []
    with Store.open(lab.work / "run") as store:
        records = [record for _, bench in store.benches() for record in bench]
        trials = [*store.trials()]
        outside = [
            (trial.planned.cell["sut.paging"], one.values["cpu_s"], one.values["guest_s"])
            for trial in trials
            for one in store.records(trial.planned.id)
            if isinstance(one, ProbeValues) and one.probe == "outside"
        ]
    nodes = [one for one in records if isinstance(one, NodeReady) and one.accelerator]
    assert {one.paging for one in nodes} == {"nested", "shadow"}
    assert all(one.accelerator == "kvm" for one in nodes)
    # All that the guest has touched is in huge pages.
    assert all(one.backing and one.backing.huge == one.backing.resident > 0 for one in nodes)
    assert {trial.planned.platform for trial in trials} == {"native", "guest"}
    assert {paging for paging, _, _ in outside} == {"nested", "shadow"}
    # All of the work is in what the VMM used. What of it was the guest's the kernel counts by ticks of
    # 10 ms: of a short trial all of them may meet the host, and of no run.
    assert all(cpu > 0.02 and 0 <= guest <= cpu + 0.02 for _, cpu, guest in outside)
    assert sum(guest for _, _, guest in outside) >= 0.01


def guest(name: str, paging: plan.Paging, pages: Literal["4K", "2M"], memory: int) -> plan.Node:
    kind = plan.Guest(
        cpus=1,
        memory=memory,
        accelerator="kvm",
        kernel=Path("/") / GUEST_KERNEL,
        initramfs=(Path("/") / GUEST_INITRAMFS,),
        boot_limit_s=60,
        settings=plan.GuestSettings(cpu_model=INNER_CPU, paging=paging, pages=pages),
    )
    return plan.Node(name=name, kind=kind)


def batch(nodes: tuple[plan.Node, ...], cpu_model: str | None = None) -> Batch:
    """One that only makes a bench, on a PC of little memory."""
    bench = plan.Bench(name="b", nodes=nodes)
    machine = Pc(
        *("virtual", 3, 1, 768 << 20, 1, "debian", 120, 200.0),
        cpu_model=cpu_model,
        profile=KVM_HOST.profile,
        modules=KVM_HOST.modules,
    )
    return Batch(0, machine, bench, (), ())


def said(output: Output) -> str:
    (ready,) = [one for one in output.records if isinstance(one, BenchReady)]
    return ready.error or ""


POLLING = """
name = "polling"
question = "Does a guest that sleeps wake sooner where its host polls?"
machine = "emulated"
probes = ["kvm"]
[sut]
platforms = ["native", "guest"]
memory = "192M"
[workloads.wake]
type = "sleep"
interval = "200us"
duration = "50ms"
[factors]
"knobs.halt_poll_ns" = [0, 1000000]
[design]
warmup = 0
min_trials = 2
max_trials = 2
blocks_per_boot = 2
min_boots = 1
"""


@pytest.mark.timeout(900)
def test_kvm_polls_for_a_guest_that_sleeps_as_long_as_it_is_reported(lab: Lab) -> None:
    ran = lab.run("run", lab.study(POLLING), "--fresh", "--out", "run", "--json")
    assert ran.status == 0 and ran.json["failed"] == [], ran.said
    with Store.open(lab.work / "run") as store:
        guests = [one for one in store.trials() if one.planned.platform == "guest"]
        reported = {one.planned.id: store.records(one.planned.id) for one in guests}
    assert len(guests) == 4
    for trial in guests:
        level, records = trial.planned.cell["knobs.halt_poll_ns"], reported[trial.planned.id]
        applied, put_back = (one for one in records if isinstance(one, KnobOutcome))
        assert (applied.node, applied.after) == ("host", str(level))
        assert put_back.after == applied.before != str(level)
        (kvm,) = (one for one in records if isinstance(one, ProbeValues) and one.probe == "kvm")
        polls = kvm.values["halt_attempted_poll"]
        assert polls == 0 if level == 0 else polls > 20, kvm.values


@pytest.mark.timeout(900)
def test_what_a_kvm_host_cannot_give_is_said(tmp_path: Path) -> None:
    """A processor without nested paging, too few huge pages, and a module in use."""
    images = {("debian", KVM_HOST.profile): build("debian", KVM_HOST.profile)}
    machine = EmulatedMachine(
        paths.agent_binary(),
        images,
        executor=Threads(3),
        cache=Cache(tmp_path / "cache"),
        emulator=emulator.build(),
    )
    mixed = (guest("one", "nested", "4K", 128 << 20), guest("two", "shadow", "4K", 128 << 20))
    with machine:
        unnested, short, in_use = machine.run(
            [
                batch((guest("one", "nested", "4K", 128 << 20),), cpu_model="max,-npt"),
                batch((guest("one", "nested", "2M", 600 << 20),)),
                batch(mixed),
            ]
        )
    assert "no nested paging (NPT)" in said(unnested), unnested
    assert "300 huge pages of 2 MB are needed" in said(short), short
    assert "are free and no more could be had" in said(short), short
    assert "cannot be loaded anew, for it is in use" in said(in_use), in_use
