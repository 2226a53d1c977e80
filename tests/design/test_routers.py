"""Routers with their ends, on every kind of machine: who is on which link, and who knows which way."""

from __future__ import annotations

from dataclasses import replace
from ipaddress import ip_interface, ip_network
from pathlib import Path
from types import SimpleNamespace

import pytest

from hypertare.base.errors import InputError
from hypertare.design import planner, routers
from hypertare.design.design import Variant, WholePlot, make
from hypertare.design.routers import Network, all_sides, networks
from hypertare.machines.batch import nics_of
from hypertare.machines.image import bird
from hypertare.protocol import plan
from hypertare.study import Study, StudyFile

TEXT = """
name = "routed"
question = "?"
[sut]
guests = 3
memory = "128M"
[bench]
topology = "routers"
queue = "pfifo"
queue_length = 200
[workloads.tcp]
type = "stream"
direction = "both"
[workloads.udp]
type = "stream"
protocol = "udp"
direction = "forward"
[workloads.rtt]
type = "ping"
[knobs]
offloads = { tso = false }
"""
IMAGES = {("debian", "guest"): SimpleNamespace(kernel=Path("/k"), initramfs=Path("/i"))}
ON = planner.MachineResources(
    cpus=(0, 1, 2, 3), accelerator="tcg", images=IMAGES, environment={"PATH": "/bin"}
)
XEN = 'machine = "emulated"\n[sut]\nplatforms = ["native", "xen"]'


def made(
    text: str = TEXT, on: planner.MachineResources = ON, kind: str = "pc"
) -> tuple[Study, WholePlot, plan.Bench]:
    file = StudyFile(text, "routed.toml")
    study = file.study()
    plot = make(study, 1).plots[0]
    variants = plot.variants
    if study.machine_kind.boots_whole_pcs:
        variants = tuple(v for v in variants if v.kind.pc.name == kind)
    plot = replace(plot, variants=variants)
    return study, plot, planner.make_bench(study, plot, {v.node: study for v in variants}, on)


def trial(workload: str, platform: str, text: str = TEXT) -> plan.Trial:
    study, plot, _ = made(text)
    variant = next(v for v in plot.variants if v.platform == platform)
    return planner.make_trial(7, study, workload, variant, plot, ON)


def emulated(seed: int = 3) -> planner.MachineResources:
    return replace(ON, chance=planner.Chance(seed))


def test_addresses_of_all_are_different_and_each_network_has_one_prefix() -> None:
    sides = [side for way in range(4) for side in all_sides(64, way)]
    for family in routers.FAMILIES:
        prefixes = [ip_network(side.prefix(family)) for side in sides]
        assert len(set(prefixes)) == len(sides)
        for side, prefix in zip(sides, prefixes, strict=True):
            own = {side.router_address(family), side.end_address(family)}
            assert len(own) == 2
            assert all(ip_interface(address).ip in prefix for address in own)


def test_each_router_is_alone_with_its_ends_on_its_links() -> None:
    _, _, bench = made()
    assert len(bench.links) == 6
    for number in (1, 2, 3):
        for side in networks(number):
            on = {n.name for n in bench.nodes for i in n.interfaces if i.link == side.link}
            assert on == {"host", f"container1-{number}", f"guest2-{number}", side.end}


def test_an_end_knows_the_way_through_each_platform_s_router_and_no_other() -> None:
    _, plot, bench = made()
    end = next(node for node in bench.nodes if node.name == "b-2")
    ways = {(route.to, route.via) for route in end.routes}
    assert ways == {
        (Network(2, "a", v.index).prefix(f), Network(2, "b", v.index).router_address(f))
        for v in plot.variants
        for f in routers.FAMILIES
    }
    assert end.router is None
    queue = plan.Queue(discipline="pfifo", length=200)
    routing = [node.name for node in bench.nodes if node.router == plan.Router(queue=queue)]
    assert len(routing) == 1 + 3 + 3


def test_the_address_decides_whose_router_the_packets_pass() -> None:
    for index, platform in enumerate(("native", "container", "guest")):
        tasks = {task.id: task for task in trial("tcp", platform).phases[-1].tasks}
        send, back = tasks["send-0.2"], tasks["send-1.2"]
        assert (send.node, back.node) == ("a-2", "b-2")
        assert isinstance(send.workload, plan.StreamSend)
        assert isinstance(back.workload, plan.StreamSend)
        to = Network(2, "b", index).end_address("ipv4")
        assert send.workload.to.partition(":")[0] == to
        assert tasks["receive-0.2"].node == "b-2"
        assert back.workload.to.startswith(Network(2, "a", index).end_address("ipv4"))


def test_in_ipv6_a_datagram_still_fills_one_packet() -> None:
    text = TEXT.replace("[bench]", '[bench]\nfamily = "ipv6"')
    tasks = {task.id: task.workload for task in trial("udp", "guest", text).phases[-1].tasks}
    send, receive = tasks["send.1"], tasks["receive.1"]
    assert isinstance(send, plan.StreamSend) and isinstance(receive, plan.StreamReceive)
    assert send.to.startswith(f"[{Network(1, 'b', 2).end_address('ipv6')}]:")
    assert receive.on.startswith("[::]:")
    assert send.message == receive.message == 1500 - 40 - 8


def test_each_pair_is_tried_before_it_is_measured_and_probed_in_its_router() -> None:
    phases = trial("rtt", "container").phases
    assert [phase.name for phase in phases] == ["reach", "measure"]
    assert [task.node for task in phases[0].tasks] == ["b-1", "b-2", "b-3"]
    outside = [p.node for p in phases[-1].probes if p.probe == "outside"]
    assert outside == ["container1-1", "container1-2", "container1-3"]


def test_knobs_of_a_link_go_to_both_interfaces_and_both_ends() -> None:
    study, plot, _ = made()
    native = next(v for v in plot.variants if v.platform == "native")
    for variant, own in [
        (native, {("host", side.link) for side in all_sides(3)}),
        (plot.variants[2], {(f"guest2-{n}", f"eth{i}") for n in (1, 2, 3) for i in (0, 1)}),
    ]:
        settings = planner.make_trial(7, study, "tcp", variant, plot, ON).knobs
        offloads = [(s.node, s.knob) for s in settings if isinstance(s.knob, plan.Offload)]
        where = [(node, knob.interface) for node, knob in offloads]
        assert len(where) == len({(node, knob.interface, knob.ports) for node, knob in offloads})
        # Ports know the bridge that they are of.
        ports = {("host", side.link) for side in all_sides(3)}
        assert set(where) == own | {(side.end, "eth0") for side in all_sides(3)} | ports


def test_nics_of_an_emulated_machine_are_on_a_hub_for_each_link() -> None:
    study, plot, bench = made(f'machine = "emulated"\n{TEXT}', emulated())
    assert {link.kind for link in bench.links} == {"hub"}
    nics = nics_of(bench)
    assert len({nic.mac for nic in nics}) == len(nics) == 2 * 6
    hubs = [nic.hub for nic in nics]
    assert {hubs.count(hub) for hub in range(6)} == {2} and len(set(hubs)) == 6
    host = next(node for node in bench.nodes if node.name == "host")
    assert [i.name for i in host.interfaces] == [f"sut{index}" for index in range(6)]
    pairs = planner.pairs(study, Variant("native", {}, "host", 0, 3), emulated())
    assert [pair.interfaces for pair in pairs] == [
        ("sut0", "sut1"),
        ("sut2", "sut3"),
        ("sut4", "sut5"),
    ]
    assert plot.variants[0].platform == "native"


def test_under_xen_each_network_has_a_bridge_and_a_wire_of_its_own() -> None:
    text = TEXT.replace("[sut]", XEN)
    _, _, bench = made(text, emulated(), "xen")
    host = bench.nodes[0]
    assert host == plan.Node(name="host", kind=plan.Host())
    kinds = {link.name: link.kind for link in bench.links}
    for side in all_sides(3):
        assert kinds[side.link] == "bridge" and kinds[routers.beyond(side)] == "hub"
        on = {n.name for n in bench.nodes for i in n.interfaces if i.link == side.link}
        assert on == {f"xen1-{side.router}"}
        beyond = {
            n.name for n in bench.nodes for i in n.interfaces if i.link == routers.beyond(side)
        }
        assert beyond == {side.end}
    # The bridge's own NIC is on the wire of its end, and of no other.
    hubs = [link.name for link in bench.links if link.kind == "hub"]
    found = {nic.mac: hubs[nic.hub] for nic in nics_of(bench)}
    for link in bench.links:
        if link.uplink is not None:
            assert found[link.uplink.mac] == link.uplink.wire == link.name.replace("lan", "wire")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (('direction = "both"', 'direction = "transmit"'), 'set direction = "forward"'),
        (('topology = "routers"', 'topology = "hosts"'), "for the topology 'routers' only"),
        (("queue_length = 200", "queue_length = 0"), "at least 1"),
        (("[bench]", '[bench]\nfamily = "ipv6"\nmtu = 1200'), "IPv6 needs an MTU of 1280 bytes"),
    ],
)
def test_what_cannot_be_is_reported(change: tuple[str, str], said: str) -> None:
    with pytest.raises(InputError, match=said):
        StudyFile(TEXT.replace(*change), "routed.toml").study()


def test_only_routers_forward() -> None:
    text = 'name = "x"\nquestion = "?"\n[workloads.tcp]\ntype = "stream"\ndirection = "forward"\n'
    with pytest.raises(InputError, match="only routers forward"):
        StudyFile(text, "x.toml").study()


def test_those_that_speak_ospf_have_a_link_of_their_own_and_a_daemon() -> None:
    text = TEXT.replace("[bench]", '[bench]\nrouting = ["ospf", "static", "ospf"]')
    daemon = SimpleNamespace(here=("/ld", "/bird"), in_guest=("/bird",), archive=Path("/b.cpio"))
    _, _, bench = made(text, replace(ON, daemon=daemon))
    speaking = {n.name: n for n in bench.nodes if n.router and n.router.daemon}
    assert set(speaking) == {f"{name}-{n}" for name in ("container1", "guest2") for n in (1, 3)}
    cores = {n.name: n.interfaces[2].link for n in speaking.values()}
    # Platforms do not learn from each other.
    assert cores["container1-1"] == cores["container1-3"] == "core-1"
    assert cores["guest2-1"] == cores["guest2-3"] == "core-2"
    container, guest = speaking["container1-3"], speaking["guest2-1"]
    assert container.router and container.router.daemon and guest.router and guest.router.daemon
    assert container.router.daemon == plan.Daemon(argv=("/ld", "/bird"), neighbours=("eth2",))
    assert guest.router.daemon.argv == ("/bird",)
    assert isinstance(guest.kind, plan.Guest)
    assert guest.kind.initramfs == (Path("/i"), Path("/b.cpio"))
    assert [link.name for link in bench.links[-2:]] == ["core-1", "core-2"]


@pytest.mark.parametrize(
    ("platform", "kind", "link"),
    [("container", "pc", "hub"), ("xen", "xen", "bridge"), ("guest", "kvm", "bridge")],
)
def test_ospf_on_an_emulated_machine(platform: str, kind: str, link: str) -> None:
    own = f'platforms = ["native", "{platform}"]\n[bench]\nrouting = ["ospf", "static", "ospf"]'
    text = f'machine = "emulated"\n{TEXT.replace("[bench]", own)}'
    daemon = bird.Start(("/bird",), ("/bird",), Path("/b.cpio"))
    _, _, bench = made(text, replace(emulated(), daemon=daemon), kind)
    (core,) = [link for link in bench.links if link.name == "core-1"]
    # Nothing of the machine's own is on it where it is a bridge.
    assert core.kind == link and core.uplink is None
    on = {n.name: i for n in bench.nodes for i in n.interfaces if i.link == "core-1"}
    assert set(on) == {f"{platform}1-1", f"{platform}1-3"}
    macs = [i.mac for n in bench.nodes for i in n.interfaces]
    macs += [one.uplink.mac for one in bench.links if one.uplink]
    assert None not in macs and len(set(macs)) == len(macs)
    for node in bench.nodes:
        speaks = node.name in on
        assert speaks == bool(node.router and node.router.daemon)
        if isinstance(node.kind, plan.Guest | plan.Domain):
            assert (Path("/b.cpio") in node.kind.initramfs) == speaks


@pytest.mark.parametrize(
    ("routing", "platforms", "said"),
    [
        ('["ospf"]', '["native", "guest"]', "bench.routing has 1 of them for 3 routers"),
        ('"ospf"', '["native"]', "natively one kernel is all of them"),
    ],
)
def test_routing_that_cannot_be_had(routing: str, platforms: str, said: str) -> None:
    text = TEXT.replace("[bench]", f"platforms = {platforms}\n[bench]\nrouting = {routing}")
    with pytest.raises(InputError, match=said):
        StudyFile(text, "routed.toml").study()
