"""Cgroups of a real kernel, in virtual time: the init of an emulated machine hands memory and cpu down."""

from __future__ import annotations

from pathlib import Path

import pytest

from hypertare.base import paths
from hypertare.design.pc import Pc
from hypertare.design.profiles import GUEST_INITRAMFS, GUEST_KERNEL
from hypertare.machines.batch import Batch
from hypertare.machines.emulated import EmulatedMachine, Output
from hypertare.machines.image import emulator
from hypertare.machines.image.build import build
from hypertare.machines.image.cache import Cache
from hypertare.platforms.guest import INNER_CPU, KVM_HOST
from hypertare.protocol import plan
from hypertare.protocol.records import BenchReady, KnobOutcome, NodeReady, ProbeValues, TrialEnd

pytestmark = [pytest.mark.guest, pytest.mark.timeout(900)]

GUESTS = ("guest-1", "guest-2")
LIMIT = 32 << 20


def bench() -> plan.Bench:
    kind = plan.Guest(
        cpus=1,
        memory=128 << 20,
        accelerator="kvm",
        kernel=Path("/") / GUEST_KERNEL,
        initramfs=(Path("/") / GUEST_INITRAMFS,),
        boot_limit_s=60,
        settings=plan.GuestSettings(cpu_model=INNER_CPU),
    )
    host = plan.Node(name="host", kind=plan.Host())
    box = plan.Node(name="box", kind=plan.Container(memory=LIMIT))
    # Both on the same CPU: only there can a weight matter.
    guests = [plan.Node(name=name, kind=kind, cpus=(0,)) for name in GUESTS]
    return plan.Bench(name="cgroups", nodes=(host, box, *guests), weights=True)


def by_weight() -> plan.Trial:
    def knob(weight: int, guest: str | None = None) -> plan.KnobSetting:
        return plan.KnobSetting(node="host", knob=plan.SchedulerWeight(weight=weight, guest=guest))

    # The weaker one burns before the other begins, and until it has ended.
    tasks = (
        plan.Task(
            id="weak",
            node="guest-2",
            background=True,
            workload=plan.Burn(share=1.0, duration_s=5.0),
        ),
        plan.Task(id="strong", node="guest-1", workload=plan.Burn(share=1.0, duration_s=0.5)),
    )
    probes = tuple(plan.ProbeRequest(node=name, probe="outside") for name in GUESTS)
    phase = plan.Phase(name="burn", tasks=tasks, probes=probes, limit_s=20)
    weights = (knob(1024), knob(1024, "guest-1"), knob(256, "guest-2"))
    return plan.Trial(id=1, knobs=weights, phases=(phase,))


def touch(number: int, memory: int) -> plan.Trial:
    workload = plan.Touch(memory=memory, count=1000)
    task = plan.Task(id="touch", node="box", workload=workload)
    return plan.Trial(id=number, phases=(plan.Phase(name="touch", tasks=(task,), limit_s=20),))


@pytest.fixture(scope="module")
def output(tmp_path_factory: pytest.TempPathFactory) -> Output:
    images = {("debian", KVM_HOST.profile): build("debian", KVM_HOST.profile)}
    machine = EmulatedMachine(
        paths.agent_binary(),
        images,
        cache=Cache(tmp_path_factory.mktemp("cache")),
        emulator=emulator.build(),
    )
    pc = Pc(
        *("virtual", 3, 1, 768 << 20, 1, "debian", 120, 200.0),
        profile=KVM_HOST.profile,
        modules=KVM_HOST.modules,
    )
    trials = (by_weight(), touch(2, LIMIT // 2), touch(3, 2 * LIMIT))
    with machine:
        (output,) = machine.run([Batch(0, pc, bench(), (), trials)])
    (ready,) = [one for one in output.records if isinstance(one, BenchReady)]
    assert ready.error is None, ready
    return output


def errors(output: Output) -> dict[int, str | None]:
    return {one.trial: one.error for one in output.records if isinstance(one, TrialEnd)}


def test_guests_on_one_cpu_share_it_by_their_weights(output: Output) -> None:
    assert errors(output)[1] is None
    cpu = {r.node: r.values["vcpu_s"] for r in output.records if isinstance(r, ProbeValues)}
    # The weaker one also has the CPU alone for a moment, before the other begins and after its end.
    assert 2.5 < cpu["guest-1"] / cpu["guest-2"] < 5, cpu
    turned = [r for r in output.records if isinstance(r, KnobOutcome)]
    assert [r.after for r in turned if r.action == "applied"] == ["400", "400", "100"]
    put_back = [r.after for r in turned if r.action == "put_back"]
    assert [r.error for r in turned] == [None] * 6 and put_back == ["100"] * 3


def test_a_container_has_no_more_memory_than_its_limit(output: Output) -> None:
    (box,) = [one for one in output.records if isinstance(one, NodeReady) and one.node == "box"]
    assert box.cgroup == "v2"
    assert errors(output)[2] is None
    assert "ran out of memory: the container has 32 MB" in (errors(output)[3] or "")
