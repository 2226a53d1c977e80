"""Routers as guests of real Xen, in virtual time: they forward; what goes to one reaches no other,
unless they have learned each other's networks by OSPF.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from hypertare.design import routers
from hypertare.design.profiles import GUEST_INITRAMFS, GUEST_KERNEL
from hypertare.design.routers import Network, networks
from hypertare.machines.image import bird
from hypertare.machines.image.build import build
from hypertare.protocol import plan
from hypertare.protocol.records import NodeReady
from hypertare.protocol.wire_type import WireType
from hypertare.runs.store import Store
from hypertare.study.bench import Family
from tests.integration import emulate, frames, machine_python
from tests.integration.lab import Lab, trials
from tests.integration.strays import strays, wanted

pytestmark = [pytest.mark.guest, pytest.mark.xdist_group("emulated")]

ALONE = (1, 2)
SPEAKING = (3, 4)
"""Those with a routing daemon."""
NUMBERS = (*ALONE, *SPEAKING)
MACS = {
    (side.router, side.side): f"52:54:00:78:00:{side.rank:02x}" for side in routers.all_sides(4)
}
LINKS = (
    *(plan.Link(name=side.link) for side in routers.all_sides(4)),
    plan.Link(name=routers.core()),
)
QUEUE = plan.Queue(discipline="pfifo", length=77)

STREAMS = {"ipv4": 2, "ipv6": 3}
LEARNED = 5
STRAYS, CONTROL = 6, 7
FIRST_ECHO = 8


def domain(initramfs: Sequence[Path]) -> plan.Domain:
    arguments = "quiet rodata=off cryptomgr.notests panic=-1 random.trust_cpu=off"
    return plan.Domain(
        cpus=1,
        memory=112 << 20,
        kernel=Path("/") / GUEST_KERNEL,
        initramfs=tuple(initramfs),
        kernel_args=(*arguments.split(), "hypertare.modules=xen_netfront"),
        boot_limit_s=240,
    )


def nic(side: Network) -> routers.Nic:
    return routers.Nic(f"eth{side.index}", MACS[side.router, side.side])


def router(number: int) -> plan.Node:
    """The agent reads each queue back, and no bench is made where it is another."""
    own = Path("/") / GUEST_INITRAMFS
    speaks = number in SPEAKING
    archives = (own, bird.ON_EMULATED.archive) if speaks else (own,)
    settings = plan.Router(queue=QUEUE)
    node = routers.router(f"xen-{number}", domain(archives), (number,), settings=settings, nics=nic)
    if not speaks:
        return node
    core = routers.core_interface(number, nic=routers.Nic("eth2", f"52:54:00:78:01:{number:02x}"))
    return routers.speaking_ospf(node, core, bird.ON_EMULATED.in_guest)


def ends(number: int) -> list[plan.Node]:
    """They send what is for any network to their router."""
    found = []
    for side in networks(number):
        anywhere = (
            plan.Route(to="0.0.0.0/0", via=side.router_address("ipv4")),
            plan.Route(to="::/0", via=side.router_address("ipv6")),
        )
        node = routers.end(side, plan.Container())
        found.append(node.model_copy(update={"routes": anywhere}))
    return found


def echo(id: str, node: str, address: str, **settings: Any) -> plan.Task:
    given = {"count": 2, "duration_s": 10, "timeout_s": 0.3, **settings}
    work = plan.PingRequest(protocol="icmp", to=address, **given)
    return plan.Task(id=id, node=node, workload=work)


def trial(id: int, tasks: Sequence[plan.Task], counted: tuple[str, ...] = ()) -> plan.TrialStep:
    probes = tuple(plan.ProbeRequest(node=node, probe="net_dev") for node in counted)
    phase = plan.Phase(name="measure", tasks=tuple(tasks), probes=probes, limit_s=60)
    return plan.TrialStep(trial=plan.Trial(id=id, phases=(phase,)))


def crossing(source: int, sink: int) -> list[plan.Task]:
    """From one router's `a` to another's `b`, in both families."""
    here, there = Network(source, "a"), Network(sink, "b")
    return [
        echo(f"{family}.{source}", here.end, there.end_address(family), timeout_s=5)
        for family in routers.FAMILIES
    ]


def streams(family: Family) -> list[plan.Task]:
    """Through two routers at once."""
    tasks = []
    for number in ALONE:
        here, there = networks(number)
        address = there.end_address(family)
        to, wildcard = (f"[{address}]", "[::]") if family == "ipv6" else (address, "0.0.0.0")
        receive = plan.StreamReceive(protocol="tcp", on=f"{wildcard}:5000", message=65536)
        send = plan.StreamSend(protocol="tcp", to=f"{to}:5000", duration_s=0.2, message=65536)
        tasks += [
            plan.Task(id=f"receive{number}", node=there.end, background=True, workload=receive),
            plan.Task(id=f"send{number}", node=here.end, workload=send),
        ]
    return tasks


def straying(own: int, foreign: int) -> list[plan.Task]:
    """Sent from `a-OWN`, looked for on every link. That of the driver domain's bridge itself is among the
    addresses.
    """
    script = Path(frames.__file__)
    others = (f"@{Network(own, 'a').link}",)
    sent = [*strays(own, foreign, MACS, others), *wanted(own, MACS)]
    names = [link.name for link in LINKS]
    return [
        machine_python.task("host", "watch", script, "watch", "6", *names),
        machine_python.task(f"a-{own}", "send", script, "send", "3", "eth0", json.dumps(sent)),
    ]


def unreachable() -> list[tuple[str, str]]:
    """Ends, and addresses that get them no answer: of another router that stands alone too, of one that
    speaks OSPF, and the other way round.
    """
    return [
        (f"a-{own}", address)
        for own, foreign in ((1, 2), (1, 3), (3, 1))
        for side in networks(foreign)
        for family in routers.FAMILIES
        for address in (side.end_address(family), side.router_address(family))
    ]


def steps() -> list[WireType]:
    nodes = [plan.Node(name="host", kind=plan.Host())]
    nodes += [node for n in NUMBERS for node in (router(n), *ends(n))]
    bench = plan.Bench(name="routers", nodes=tuple(nodes), links=LINKS)
    found: list[WireType] = [plan.HelloStep(), plan.BenchStep(bench=bench)]
    found.append(trial(1, [task for n in NUMBERS for task in crossing(n, n)]))
    found += [trial(id, streams(f), ("xen-1", "xen-2")) for f, id in STREAMS.items()]
    # OSPF takes some seconds to find its neighbours and the ways.
    waiting = echo("wait", "a-3", Network(3, "b").end_address("ipv4"), count=20, interval_s=1)
    found.append(trial(LEARNED - 1, [waiting]))
    found.append(trial(LEARNED, [*crossing(3, 4), *crossing(4, 3)]))
    found.append(trial(STRAYS, straying(1, 2)))
    found.append(trial(CONTROL, straying(3, 4)))
    for id, (node, address) in enumerate(unreachable(), start=FIRST_ECHO):
        found.append(trial(id, [echo("stray", node, address)]))
    return [*found, plan.TeardownStep()]


@pytest.fixture(scope="module")
def records(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """What one boot of the machine reports of all that."""
    folder = tmp_path_factory.mktemp("routers")
    python = folder / "python.cpio"
    python.write_bytes(machine_python.archive(Path(frames.__file__), folder))
    reported = emulate.boot(
        build(profile="xen"),
        steps(),
        folder,
        *("--module=veth", "--module=af_packet", "--driver-memory=512M", "--memory=1100M"),
        behind=[bird.build().carried, python],
        patience_s=500,
    )
    return reported.records


def error(records: list[dict], id: int) -> str | None:
    (end,) = [one for one in records if one["record"] == "trial_end" and one["trial"] == id]
    return end["error"]


def packets(records: list[dict], id: int, node: str, direction: str) -> float:
    (probe,) = [
        one
        for one in records
        if one["record"] == "probe" and one["trial"] == id and one["node"] == node
    ]
    values = probe["values"].items()
    return sum(count for name, count in values if name.endswith(f".{direction}_packets"))


@pytest.mark.timeout(900)
def test_guests_of_xen_forward(records: list[dict]) -> None:
    (bench,) = [one for one in records if one["record"] == "bench"]
    assert bench["error"] is None
    assert error(records, 1) is None
    for id in STREAMS.values():
        assert error(records, id) is None
        received = [
            one["values"]["received_bytes"]
            for one in records
            if one["record"] == "result"
            and one["trial"] == id
            and one["task"].startswith("receive")
        ]
        assert len(received) == 2 and all(amount > 1e5 for amount in received)
        assert all(packets(records, id, f"xen-{n}", "tx") > 100 for n in ALONE)


@pytest.mark.timeout(900)
def test_two_learn_each_other_s_networks_by_ospf_and_the_others_stay_alone(
    records: list[dict],
) -> None:
    assert error(records, LEARNED) is None
    for id, (node, address) in enumerate(unreachable(), start=FIRST_ECHO):
        said = error(records, id) or ""
        # Its own router has answered that there is no way, or nobody has.
        assert f"stray on {node} failed" in said, (node, address, said)
        assert "answered none" in said or "unreachable" in said, said


def marked(records: list[dict], id: int) -> dict[str, int]:
    """Frames with the mark, by link."""
    assert error(records, id) is None
    (watch,) = [
        one
        for one in records
        if one["record"] == "result" and one["trial"] == id and one["task"] == "watch"
    ]
    return {name: seen["marked"] for name, seen in json.loads(watch["text"]["stdout"]).items()}


@pytest.mark.timeout(900)
def test_what_goes_to_one_router_is_seen_on_no_link_of_another(records: list[dict]) -> None:
    seen = marked(records, STRAYS)
    assert seen.pop("lan-a1") >= 3 * len(strays(1, 2, MACS))
    assert seen.pop("lan-b1") >= 2 * 3
    assert set(seen.values()) == {0}, seen


@pytest.mark.timeout(900)
def test_the_same_is_seen_where_routers_have_learned_of_each_other(records: list[dict]) -> None:
    """What the other test would see if routers were not kept apart."""
    seen = marked(records, CONTROL)
    joined = ("lan-a3", "lan-b3", "core-0", "lan-a4", "lan-b4")
    assert all(seen.pop(name) > 0 for name in joined), seen
    assert set(seen.values()) == {0}, seen


# --- a study

STUDY = """
name = "ends-as-guests"
question = "What does a router under Xen lose that speaks OSPF, between ends that are guests too?"
machine = "emulated"
[sut]
platforms = ["native", "xen"]
memory = "112M"
[bench]
topology = "routers"
family = "ipv6"
peers = "guest"
routing = "ospf"
queue = "fq_codel"
queue_length = 77
[workloads.forward]
type = "stream"
direction = "forward"
duration = "100ms"
omit = "50ms"
[workloads.rtt]
type = "ping"
protocol = "icmp"
duration = "50ms"
[design]
min_trials = 2
max_trials = 2
blocks_per_boot = 2
min_boots = 1
"""


@pytest.mark.release
@pytest.mark.timeout(900)
def test_a_study_of_a_router_between_ends_that_are_guests(lab: Lab) -> None:
    run = lab.home / "run"
    ran = lab.run("run", lab.study(STUDY), "--out", run, patience_s=500)
    assert ran.status == 0, ran.err
    found = trials(run)
    assert {(t[2], t[3]) for t in found} == {
        (platform, workload) for platform in ("native", "xen") for workload in ("forward", "rtt")
    }
    assert {t[5] for t in found} == {"ok"} and len(found) == 8
    with Store.resume(run) as store:
        nodes = [
            one for _, reported in store.benches() for one in reported if isinstance(one, NodeReady)
        ]
    under_xen = {node.node for node in nodes if (node.vmm or "").startswith("Xen")}
    assert under_xen == {"host", "xen1", "a-1", "b-1"}
