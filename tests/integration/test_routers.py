"""Virtual routers on this host: they forward, and what goes to one reaches no other."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from hypertare.base.paths import agent_binary
from hypertare.design import routers
from hypertare.design.routers import Network, networks
from hypertare.machines.image import bird
from hypertare.machines.image.build import build
from hypertare.machines.local import LocalMachine
from hypertare.protocol import plan
from hypertare.protocol.records import BenchReady, ProbeValues, Record, TaskResult, TrialEnd
from hypertare.study.bench import Family
from tests.integration import frames
from tests.integration.strays import strays, wanted

BOTH: tuple[Family, ...] = ("ipv4", "ipv6")
COUNT = 2
MACS = {
    (number, side): f"52:54:00:78:{number:02x}:{index:02x}"
    for number in range(1, COUNT + 1)
    for index, side in enumerate(routers.SIDES)
}
"""Of the routers' interfaces, so that frames can be addressed to them."""


@pytest.fixture
def machine() -> Iterator[LocalMachine]:
    with LocalMachine(agent_binary()) as machine:
        yield machine


def make(machine: LocalMachine, nodes: Sequence[plan.Node], limit_s: float = 30) -> None:
    bench = plan.Bench(
        name="routers",
        nodes=tuple(nodes),
        links=tuple(plan.Link(name=side.link) for side in routers.all_sides(COUNT)),
    )
    ready = machine.make_bench(bench, limit_s)[-1]
    assert isinstance(ready, BenchReady) and ready.error is None, ready


def trial(
    machine: LocalMachine, id: int, tasks: Sequence[plan.Task], counted: str | None = None
) -> tuple[dict[str, TaskResult], dict[str, float]]:
    """What the tasks report, and what the interfaces of one node have counted."""
    probes = (plan.ProbeRequest(node=counted, probe="net_dev"),) if counted else ()
    phase = plan.Phase(name="measure", tasks=tuple(tasks), probes=probes, limit_s=20)
    records: list[Record] = machine.run(plan.Trial(id=id, phases=(phase,)))
    end = records[-1]
    assert isinstance(end, TrialEnd) and end.error is None, end
    counts = [one.values for one in records if isinstance(one, ProbeValues)]
    results = {one.task: one for one in records if isinstance(one, TaskResult)}
    return results, counts[0] if counts else {}


def ends(ways: Sequence[int] = (0,), anywhere: bool = False, count: int = COUNT) -> list[plan.Node]:
    """`anywhere`: they send what is for any network to their router."""
    found = []
    for side in routers.all_sides(count):
        node = routers.end(side, plan.Container(), ways=ways)
        if anywhere:
            default = {"ipv4": "0.0.0.0/0", "ipv6": "::/0"}
            routes = [plan.Route(to=default[f], via=side.router_address(f)) for f in BOTH]
            node = node.model_copy(update={"routes": tuple(routes)})
        found.append(node)
    return found


def streams(there: Network, family: Family) -> list[plan.Task]:
    """TCP and UDP from one end to the other."""
    tasks = []
    address = there.end_address(family)
    to, wildcard = (address, "0.0.0.0") if family == "ipv4" else (f"[{address}]", "[::]")
    for port, protocol in enumerate(("tcp", "udp"), start=5000):
        receive = plan.StreamReceive.model_validate(
            {"protocol": protocol, "on": f"{wildcard}:{port}", "message": 1200}
        )
        send = plan.StreamSend.model_validate(
            {"protocol": protocol, "to": f"{to}:{port}", "duration_s": 1.0, "message": 1200}
            | {"rate_bps": 2e7}
        )
        tasks += [
            plan.Task(id=f"receive-{protocol}", node=there.end, background=True, workload=receive),
            plan.Task(id=f"send-{protocol}", node=there.other.end, workload=send),
        ]
    return tasks


def check_forwarding(machine: LocalMachine, id: int, there: Network, router: str) -> None:
    """Each family, TCP and UDP; and it is this router that has forwarded."""
    for family in BOTH:
        results, counts = trial(machine, id, streams(there, family), router)
        sent = results["send-tcp"].values["sent_bytes"]
        assert results["receive-tcp"].values["received_bytes"] == sent > 1e5
        # How many is the host's speed: beside other work an emulated router has dropped most.
        assert results["receive-udp"].values["received_packets"] > 100
        for column in ("rx_bytes", "tx_bytes"):
            moved = sum(v for name, v in counts.items() if name.endswith(f".{column}"))
            assert moved > sent, (router, counts)


def answers(machine: LocalMachine, id: int, address: str) -> bool:
    """Whether `a-1` gets an answer from there."""
    echo = plan.PingRequest(protocol="icmp", to=address, count=2, duration_s=1, timeout_s=0.3)
    task = plan.Task(id="echo", node="a-1", workload=echo)
    phase = plan.Phase(name="echo", tasks=(task,), limit_s=10)
    end = machine.run(plan.Trial(id=id, phases=(phase,)))[-1]
    assert isinstance(end, TrialEnd)
    assert end.error is None or "answered none" in end.error or "unreachable" in end.error, end
    return end.error is None


@pytest.mark.runs
def test_hosts_and_containers_forward_side_by_side(machine: LocalMachine) -> None:
    native = routers.router("host", plan.Host(), (1, 2), way=0)
    short = plan.Router(queue=plan.Queue(discipline="pfifo", length=100))
    boxes = [
        routers.router(f"box-{number}", plan.Container(), (number,), way=1, settings=short)
        for number in (1, 2)
    ]
    make(machine, [native, *boxes, *ends((0, 1))])
    check_forwarding(machine, 1, Network(2, "b", way=0), "host")
    check_forwarding(machine, 2, Network(2, "b", way=1), "box-2")
    check_forwarding(machine, 3, Network(1, "a", way=1), "box-1")


@pytest.mark.runs
def test_who_is_no_router_forwards_nothing(machine: LocalMachine) -> None:
    boxes = [
        routers.router(f"box-{number}", plan.Container(), (number,)).model_copy(
            update={"router": None}
        )
        for number in (1, 2)
    ]
    make(machine, [*boxes, *ends()])
    here, there = networks(1)
    for family in BOTH:
        assert answers(machine, 1, here.router_address(family))
        assert not answers(machine, 2, there.end_address(family))


# --- isolation


def python(node: str, id: str, *words: str) -> plan.Task:
    argv = (sys.executable, str(Path(frames.__file__)), *words)
    return plan.Task(id=id, node=node, workload=plan.Command(argv=argv))


def check_isolation(machine: LocalMachine, id: int) -> None:
    links = [side.link for number in (1, 2) for side in networks(number)]
    allowed = Network(1, "b")
    stray = strays(1, 2, MACS)
    sent = json.dumps([*stray, *wanted(1, MACS)])
    tasks = [
        python("host", "watch", "watch", "1.5", *links),
        python("a-1", "send", "send", "0.7", "eth0", sent),
    ]
    results, _ = trial(machine, id, tasks)
    seen = json.loads(results["watch"].text["stdout"])
    assert seen["lan-a1"]["marked"] >= 3 * len(stray), seen
    assert seen["lan-b1"]["marked"] >= 2 * 3, seen
    assert seen["lan-a2"]["marked"] == seen["lan-b2"]["marked"] == 0, seen
    for family in BOTH:
        assert answers(machine, id, allowed.end_address(family))
        for side in networks(2):
            assert not answers(machine, id, side.end_address(family))
            assert not answers(machine, id, side.router_address(family))


def host() -> plan.Node:
    """Looks on; it is on no link."""
    return plan.Node(name="host", kind=plan.Host())


def nics(side: Network) -> routers.Nic:
    return routers.Nic(f"eth{side.index}", MACS[side.router, side.side])


def virtio(side: Network) -> routers.Nic:
    return replace(nics(side), model="virtio-net")


@pytest.mark.runs
def test_what_goes_to_one_container_reaches_no_other(machine: LocalMachine) -> None:
    boxes = [
        routers.router(f"box-{number}", plan.Container(), (number,), nics=nics) for number in (1, 2)
    ]
    make(machine, [host(), *boxes, *ends(anywhere=True)])
    for number in (1, 2):
        check_forwarding(machine, number, Network(number, "b"), f"box-{number}")
    check_isolation(machine, 3)


@pytest.mark.runs
def test_natively_one_router_knows_every_network(machine: LocalMachine) -> None:
    """What the other tests would see if a router were not kept apart."""
    native = routers.router(
        "host", plan.Host(), (1, 2), nics=lambda s: routers.Nic(s.link, MACS[s.router, s.side])
    )
    make(machine, [native, *ends(anywhere=True)])
    for family in BOTH:
        assert answers(machine, 1, Network(2, "b").end_address(family))
    with pytest.raises(AssertionError, match="lan-b2"):
        check_isolation(machine, 2)


@pytest.mark.guest
@pytest.mark.xdist_group("machines")
def test_what_goes_to_one_guest_reaches_no_other(machine: LocalMachine) -> None:
    image = build(profile="guest")
    kind = plan.Guest(
        cpus=1,
        memory=128 << 20,
        accelerator="tcg",
        kernel=image.kernel,
        initramfs=(image.initramfs,),
        boot_limit_s=60,
    )
    guests = [routers.router(f"guest-{number}", kind, (number,), nics=virtio) for number in (1, 2)]
    make(machine, [host(), *guests, *ends(anywhere=True)], limit_s=60)
    for number in (1, 2):
        check_forwarding(machine, number, Network(number, "b"), f"guest-{number}")
    check_isolation(machine, 3)


# --- routing by OSPF


def learned(machine: LocalMachine, address: str) -> bool:
    """OSPF takes some seconds to find its neighbours and the ways, and guests that starve many more."""
    deadline = time.monotonic() + 120
    while not (there := answers(machine, 1, address)) and time.monotonic() < deadline:
        time.sleep(0.2)
    return there


def check_ospf(machine: LocalMachine, nodes: Sequence[plan.Node], limit_s: float) -> None:
    """Router 1 learns of router 2's networks and forwards to them; router 3 of neither's."""
    links = (
        *(plan.Link(name=side.link) for side in routers.all_sides(3)),
        plan.Link(name=routers.core()),
    )
    bench = plan.Bench(name="ospf", nodes=tuple(nodes), links=links)
    ready = machine.make_bench(bench, limit_s)[-1]
    assert isinstance(ready, BenchReady) and ready.error is None, ready
    for family in BOTH:
        assert learned(machine, Network(2, "b").end_address(family))
        assert not answers(machine, 2, Network(3, "b").end_address(family))


def ospf(kind: plan.NodeKind, argv: Sequence[str], model: plan.NicModel | None) -> list[plan.Node]:
    """Routers 1 and 2 speak OSPF with each other; router 3 stands alone."""
    found = []
    for number in (1, 2, 3):
        mac = f"52:54:00:79:{number:02x}:"
        node = routers.router(
            f"router-{number}",
            kind,
            (number,),
            nics=lambda s, mac=mac: routers.Nic(f"eth{s.index}", f"{mac}{s.index:02x}", model),
        )
        core = routers.core_interface(number, nic=routers.Nic("eth2", f"{mac}02", model))
        found.append(node if number == 3 else routers.speaking_ospf(node, core, argv))
    return [*found, *ends(anywhere=True, count=3)]


@pytest.mark.runs
def test_containers_learn_each_other_s_networks_by_ospf(machine: LocalMachine) -> None:
    check_ospf(machine, ospf(plan.Container(), bird.build().here, None), 30)


@pytest.mark.guest
@pytest.mark.xdist_group("machines")
def test_guests_learn_each_other_s_networks_by_ospf(machine: LocalMachine) -> None:
    daemon = bird.build()
    image = build(profile="guest")
    kind = plan.Guest(
        cpus=1,
        memory=160 << 20,
        accelerator="tcg",
        kernel=image.kernel,
        initramfs=(image.initramfs, daemon.archive),
        boot_limit_s=60,
    )
    check_ospf(machine, ospf(kind, daemon.in_guest, "virtio-net"), 60)
