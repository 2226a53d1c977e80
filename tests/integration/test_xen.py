"""Real Xen in virtual time: a driver domain whose agent makes PV guests and has them send."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from hypertare import plan
from hypertare.image import cpio
from hypertare.image.build import GUEST_INITRAMFS, GUEST_KERNEL, Image, build
from hypertare.paths import agent_binary
from hypertare.plan import Seam

pytestmark = pytest.mark.guest

GUESTS = 2


def guest(number: int) -> plan.Node:
    arguments = "quiet rodata=off cryptomgr.notests panic=-1 random.trust_cpu=off"
    kind = plan.Domain(
        cpus=1,
        memory=128 << 20,
        weight=128 * number,
        kernel=Path("/") / GUEST_KERNEL,
        initramfs=Path("/") / GUEST_INITRAMFS,
        kernel_args=(*arguments.split(), "hypertare.modules=xen_netfront"),
        boot_limit_s=120,
    )
    interface = plan.Interface(
        name="eth0",
        link="br0",
        address=f"10.77.0.{number + 2}/24",
        mac=f"52:54:00:00:00:{number + 2:02x}",
    )
    return plan.Node(name=f"guest{number}", kind=kind, interfaces=(interface,))


def steps() -> list[Seam]:
    own = plan.Interface(name="br0", link="br0", address="10.77.0.1/24")
    host = plan.Node(name="host", kind=plan.Host(), interfaces=(own,))
    guests = [guest(number + 1) for number in range(GUESTS)]
    bench = plan.Bench(name="xen", nodes=(host, *guests), links=(plan.Link(name="br0"),))
    tasks = []
    for number, node in enumerate(guests):
        receive = plan.StreamReceive(
            protocol="tcp", on=f"0.0.0.0:{5000 + number}", flows=1, message=131072
        )
        send = plan.StreamSend(
            protocol="tcp",
            to=f"10.77.0.1:{5000 + number}",
            duration_s=0.5,
            flows=1,
            message=131072,
        )
        tasks.append(
            plan.Task(id=f"receive{number}", node="host", background=True, workload=receive)
        )
        tasks.append(plan.Task(id=f"send{number}", node=node.name, workload=send))
    probes = tuple(plan.ProbeRequest(node=node.name, probe="outside") for node in guests)
    phase = plan.Phase(name="measure", tasks=tuple(tasks), probes=probes, limit_s=30)
    weight = plan.KnobSetting(node="host", knob=plan.SchedulerWeight(weight=512))
    trial = plan.Trial(id=1, knobs=(weight,), phases=(phase,))
    return [
        plan.HelloStep(),
        plan.BenchStep(bench=bench),
        plan.TrialStep(trial=trial),
        plan.TeardownStep(),
    ]


@pytest.fixture(scope="module")
def image() -> Image:
    return build(profile="xen")


def run(image: Image, folder: Path) -> bytes:
    archive = folder / "plan.cpio"
    text = b"".join(step.model_dump_json().encode() + b"\n" for step in steps())
    archive.write_bytes(cpio.archive([cpio.file("plan.jsonl", text)]))
    records = folder / "records"
    argv = [agent_binary(), "emulate", f"--kernel={image.kernel}", f"--records={records}"]
    argv += [f"--initramfs={image.initramfs}", f"--initramfs={archive}"]
    argv += [f"--hypervisor={image.hypervisor}", "--driver-memory=448M", "--memory=1G"]
    process = subprocess.Popen(argv, stdin=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        # Its input stays open: when that ends, so does the machine.
        assert process.wait(300) == 0, process.stderr and process.stderr.read()
    finally:
        process.kill()
        process.wait()
    return records.read_bytes()


@pytest.mark.timeout(700)
def test_guests_of_xen_work_are_accounted_for_and_repeat(image: Image, tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    raw = run(image, tmp_path / "a")
    records = [json.loads(line) for line in raw.splitlines()]
    (end,) = [one for one in records if one["record"] == "trial_end"]
    assert end["error"] is None
    assert records[-1]["record"] == "teardown"
    sent = [r for r in records if r["record"] == "result" and r["task"].startswith("send")]
    assert len(sent) == GUESTS and all(one["values"]["sent_bytes"] > 1e6 for one in sent)
    outside = [r for r in records if r["record"] == "probe" and r["probe"] == "outside"]
    assert len(outside) == GUESTS
    assert all(0 < one["values"]["cpu_s"] < one["elapsed_s"] for one in outside)
    knobs = [(one["action"], one["before"], one["after"]) for one in records if "knob" in one]
    assert knobs == [("applied", "256", "512"), ("put_back", "512", "256")]
    assert run(image, tmp_path / "b") == raw
