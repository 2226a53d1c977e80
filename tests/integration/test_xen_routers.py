"""Routers as guests of real Xen, in virtual time: they forward, and what goes to one reaches no other."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from hypertare import plan, routers
from hypertare.image import cpio
from hypertare.image.build import GUEST_INITRAMFS, GUEST_KERNEL, build
from hypertare.paths import agent_binary
from hypertare.plan import Seam
from hypertare.routers import Network, networks

pytestmark = [pytest.mark.guest, pytest.mark.xdist_group("emulated")]

STRAYS = 5


def domain() -> plan.Domain:
    arguments = "quiet rodata=off cryptomgr.notests panic=-1 random.trust_cpu=off"
    return plan.Domain(
        cpus=1,
        memory=112 << 20,
        kernel=Path("/") / GUEST_KERNEL,
        initramfs=(Path("/") / GUEST_INITRAMFS,),
        kernel_args=(*arguments.split(), "hypertare.modules=xen_netfront"),
        boot_limit_s=120,
    )


def nic(side: Network) -> routers.Nic:
    return routers.Nic(f"eth{side.index}", f"52:54:00:78:00:{side.rank:02x}")


def nodes() -> list[plan.Node]:
    """Ends send what is for any network to their router."""
    found = [plan.Node(name="host", kind=plan.Host())]
    for number in (1, 2):
        found.append(routers.router(f"xen-{number}", domain(), (number,), nics=nic))
        for side in networks(number):
            anywhere = (
                plan.Route(to="0.0.0.0/0", via=side.router_address("ipv4")),
                plan.Route(to="::/0", via=side.router_address("ipv6")),
            )
            node = routers.end(side, plan.Container())
            found.append(node.model_copy(update={"routes": anywhere}))
    return found


def echo(address: str, count: int, timeout_s: float) -> plan.Workload:
    return plan.PingRequest(
        protocol="icmp", to=address, count=count, duration_s=10, timeout_s=timeout_s
    )


def trial(id: int, tasks: list[plan.Task], counted: tuple[str, ...] = ()) -> plan.TrialStep:
    probes = tuple(plan.ProbeRequest(node=node, probe="net_dev") for node in counted)
    phase = plan.Phase(name="measure", tasks=tuple(tasks), probes=probes, limit_s=30)
    return plan.TrialStep(trial=plan.Trial(id=id, phases=(phase,)))


def streams(family: routers.Family, wildcard: str) -> list[plan.Task]:
    """Through both routers at once."""
    tasks = []
    for number in (1, 2):
        here, there = networks(number)
        address = there.end_address(family)
        to = f"[{address}]" if family == "ipv6" else address
        receive = plan.StreamReceive(protocol="tcp", on=f"{wildcard}:5000", message=65536)
        send = plan.StreamSend(protocol="tcp", to=f"{to}:5000", duration_s=0.2, message=65536)
        tasks += [
            plan.Task(id=f"receive{number}", node=there.end, background=True, workload=receive),
            plan.Task(id=f"send{number}", node=here.end, workload=send),
        ]
    return tasks


def steps() -> list[Seam]:
    bench = plan.Bench(name="routers", nodes=tuple(nodes()), links=routers.links(2))
    found: list[Seam] = [plan.HelloStep(), plan.BenchStep(bench=bench)]
    for number in (1, 2):
        here, there = networks(number)
        reach = [
            plan.Task(id=family, node=here.end, workload=echo(there.end_address(family), 1, 5))
            for family in routers.FAMILIES
        ]
        found.append(trial(number, reach))
    found.append(trial(3, streams("ipv4", "0.0.0.0"), ("xen-1", "xen-2")))
    found.append(trial(4, streams("ipv6", "[::]"), ("xen-1", "xen-2")))
    targets = [
        address
        for side in networks(2)
        for family in routers.FAMILIES
        for address in (side.end_address(family), side.router_address(family))
    ]
    for id, address in enumerate(targets, start=5):
        stray = plan.Task(id="stray", node="a-1", workload=echo(address, STRAYS, 0.01))
        found.append(trial(id, [stray]))
    return [*found, plan.TeardownStep()]


def run(folder: Path) -> list[dict[str, object]]:
    image = build(profile="xen")
    archive, records = folder / "plan.cpio", folder / "records"
    text = b"".join(step.model_dump_json().encode() + b"\n" for step in steps())
    archive.write_bytes(cpio.archive([cpio.file("plan.jsonl", text)]))
    argv = [agent_binary(), "emulate", f"--kernel={image.kernel}", f"--records={records}"]
    argv += [f"--initramfs={image.initramfs}", f"--initramfs={archive}", "--module=veth"]
    argv += [f"--hypervisor={image.hypervisor}", "--driver-memory=448M", "--memory=1G"]
    process = subprocess.Popen(argv, stdin=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        # Its input stays open: when that ends, so does the machine.
        assert process.wait(300) == 0, process.stderr and process.stderr.read()
    finally:
        process.kill()
        process.wait()
    return [json.loads(line) for line in records.read_bytes().splitlines()]


def packets(records: list[dict], id: int, node: str, direction: str) -> float:
    (probe,) = [
        one
        for one in records
        if one["record"] == "probe" and one["trial"] == id and one["node"] == node
    ]
    values = probe["values"].items()
    return sum(count for name, count in values if name.endswith(f".{direction}_packets"))


@pytest.mark.timeout(400)
def test_guests_of_xen_forward_and_are_kept_apart(tmp_path: Path) -> None:
    records: list[dict] = run(tmp_path)
    errors = {one["trial"]: one["error"] for one in records if one["record"] == "trial_end"}
    assert records[-1]["record"] == "teardown" and len(errors) == 12, records[-3:]
    assert [errors[id] for id in (1, 2, 3, 4)] == [None] * 4
    for id in (3, 4):
        received = [
            one["values"]["received_bytes"]
            for one in records
            if one["record"] == "result"
            and one["trial"] == id
            and one["task"].startswith("receive")
        ]
        assert len(received) == 2 and all(amount > 1e5 for amount in received)
        assert all(packets(records, id, f"xen-{n}", "tx") > 100 for n in (1, 2))
    for id in range(5, 13):
        # Its own router has answered that there is no way, or nobody has.
        assert "stray on a-1 failed" in (errors[id] or ""), errors
