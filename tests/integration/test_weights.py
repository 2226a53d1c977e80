"""CPU weights of local guests: who moves the packets gets the share that the weight says."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from hypertare.base.paths import agent_binary
from hypertare.machines.image.build import build
from hypertare.machines.local import LocalMachine
from hypertare.protocol import plan
from hypertare.protocol.records import BenchReady, KnobOutcome, ProbeValues, TrialEnd

pytestmark = [pytest.mark.guest, pytest.mark.xdist_group("machines")]

GUESTS = ("guest-1", "guest-2")


@pytest.fixture
def machine() -> Iterator[LocalMachine]:
    with LocalMachine(agent_binary()) as machine:
        yield machine


def bench() -> plan.Bench:
    image = build(profile="guest")
    kind = plan.Guest(
        cpus=1,
        memory=128 << 20,
        accelerator="tcg",
        kernel=image.kernel,
        initramfs=(image.initramfs,),
        boot_limit_s=60,
    )
    host = plan.Node(name="host", kind=plan.Host())
    # Both on the same CPU: only there can a weight matter.
    guests = [plan.Node(name=name, kind=kind, cpus=(0,)) for name in GUESTS]
    return plan.Bench(name="weights", nodes=(host, *guests), weights=True)


def knob(weight: int, guest: str | None = None) -> plan.KnobSetting:
    return plan.KnobSetting(node="host", knob=plan.SchedulerWeight(weight=weight, guest=guest))


def test_guests_on_one_cpu_share_it_by_their_weights(machine: LocalMachine) -> None:
    ready = machine.make_bench(bench(), 60)[-1]
    assert isinstance(ready, BenchReady)
    if ready.error and "need a cgroup with the cpu controller" in ready.error:
        pytest.skip(ready.error)
    assert ready.error is None
    # The weaker one burns before the other begins, and until it has ended.
    tasks = (
        plan.Task(
            id="weak",
            node="guest-2",
            background=True,
            workload=plan.Burn(share=1.0, duration_s=30.0),
        ),
        plan.Task(id="strong", node="guest-1", workload=plan.Burn(share=1.0, duration_s=4.0)),
    )
    probes = tuple(plan.ProbeRequest(node=name, probe="outside") for name in GUESTS)
    phase = plan.Phase(name="burn", tasks=tasks, probes=probes, limit_s=30)
    weights = (knob(1024), knob(1024, "guest-1"), knob(256, "guest-2"))
    records = machine.run(plan.Trial(id=1, knobs=weights, phases=(phase,)))
    assert isinstance(end := records[-1], TrialEnd) and end.error is None, end
    cpu = {r.node: r.values["vcpu_s"] for r in records if isinstance(r, ProbeValues)}
    assert 2 < cpu["guest-1"] / cpu["guest-2"] < 6, cpu
    turned = [r for r in records if isinstance(r, KnobOutcome)]
    normal = turned[0].before
    assert normal in ("1024", "100")
    put_back = [r.after for r in turned if r.action == "put_back"]
    assert [r.error for r in turned] == [None] * 6 and put_back == [normal] * 3
