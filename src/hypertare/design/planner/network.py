"""The network of a bench: names, addresses, links, and the ends of its traffic."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hypertare.design import routers
from hypertare.design.design import Variant, numbered
from hypertare.design.planner.machine_resources import MachineResources
from hypertare.design.planner.nodes import are_guests
from hypertare.design.routers import Network, networks
from hypertare.platforms.platform import PcClass
from hypertare.protocol import plan
from hypertare.study import Study
from hypertare.study.sut import MOST_GUESTS
from hypertare.workloads.pair import End, Pair

LINK = "lan"
WIRE = "wire"
"""The hub beyond the driver domain's bridge."""
PEER = "peer"
HOST = "host"
LIFE_INDEX = 251
"""Index of the addresses of nodes that are made within a trial."""
PEER_INDEX = 252
CORE_RANK = 2 * MOST_GUESTS
"""Base of the ranks of NICs on links between routers; the NICs of both sides have lower ranks."""
DRIVER_ADDRESS = "10.77.0.1"
"""Address of a driver domain that routes; the addresses of nodes under test begin after it."""
HOST_INDEX = 0
FAR_INDEX = 253
"""Index of the MAC address of a far bridge's NIC, on benches of routers."""

HUB_INTERFACE = "sut0"
"""The PC's own NIC, which the kernel may know as `eth0` or `eth1` until it is renamed."""


def peer_of_given(node: str) -> str:
    """Returns the name of the peer of the given machine `node`."""
    return f"{PEER}-{node}"


def interface_of(node: str, study: Study) -> str:
    """How a node calls its interface on the link."""
    if node != HOST:
        return "eth0"
    return HUB_INTERFACE if study.machine_kind.boots_whole_pcs else LINK


def address_of(index: int, rank: int) -> str:
    """Returns the IPv4 address of a node: `index` is its variant's place on the bench, `rank` its own
    number.
    """
    return f"10.77.{rank}.{index + 2}"


def with_prefix(address: str, study: Study) -> str:
    return f"{address}/{24 if study.bench_guests == 1 else 16}"


def mac_of(
    variant: Variant, rank: int, study: Study, on: MachineResources, index: int
) -> str | None:
    """Returns the MAC address of a node under test, or of a node like it at another `index`.

    All NICs of an emulated PC have an address of the bench, and so have those of guests on other machines.
    Returns None for any other node, whose address the machine chooses.
    """
    if study.machine_kind.boots_whole_pcs:
        return on.chance.mac(index, rank)
    if variant.kind.nic == "modelled":
        return f"52:54:00:77:{rank:02x}:{index + 2:02x}"
    return None


def model_of(variant: Variant, study: Study) -> plan.NicModel | None:
    """Returns the model of the variant's NIC, or None if its NIC is not an emulated card."""
    if study.machine_kind.boots_whole_pcs:
        return None if variant.kind.nic == "paravirtual" else study.sut.nic
    return study.sut.nic if variant.kind.nic == "modelled" else None


def router_nic(study: Study, variant: Variant, side: Network, on: MachineResources) -> routers.Nic:
    """Returns the name, MAC address and model of a router's NIC on one side.

    The baseline's one node has the NICs of all routers, so its names count them; any other node has two.
    """
    name = f"eth{side.index}"
    if variant.kind.is_host:
        name = f"sut{side.rank}" if study.machine_kind.boots_whole_pcs else side.link
    mac = mac_of(variant, side.rank, study, on, variant.index)
    return routers.Nic(name, mac, model_of(variant, study))


def routes_guests(study: Study, under: PcClass | None) -> bool:
    """Whether the driver domain joins its guests to the network by IP."""
    has_driver = under is not None and under.has_driver_domain
    return has_driver and study.bench.driver == "route" and study.needs_network


def make_links(study: Study, under: PcClass | None, on: MachineResources) -> list[plan.Link]:
    """The link of the systems under test, and that of their peers last, where it is another.

    The PC's own NIC, which is the baseline's, is a port of the host's bridge, or guests are routed to
    it: what they send takes the same wire. Peers that are guests have a bridge with a NIC at its other
    end, and so have those beyond a line of a limited rate, so that all of them share it.
    """
    mtu = study.largest_mtu
    if is_switched(study, under):
        return list(line_between(study, LINK, WIRE, 0, under, on))
    if under is None:
        return [plan.Link(name=LINK, kind=plain_link(study), mtu=mtu)]
    near = plan.Uplink(mac=on.chance.mac(HOST_INDEX), nic=study.sut.nic)
    lan = plan.Link(name=LINK, kind=_joining(study, under), mtu=mtu, uplink=near)
    return [lan, plan.Link(name=WIRE, kind="hub", mtu=mtu)]


def line_between(
    study: Study, near: str, far: str, rank: int, under: PcClass | None, on: MachineResources
) -> Iterator[plan.Link]:
    """The link of the systems under test and that of their peers, which have one line between them.

    On an emulated machine it is a wire between NICs: that of the far bridge, and that of the near one
    or, where the baseline has it, of the system under test itself.
    """
    mtu, rate = study.largest_mtu, study.bench.line_rate
    if not study.machine_kind.boots_whole_pcs:
        assert rate is not None
        yield plan.Link(name=near, mtu=mtu, trunk=plan.Trunk(to=far, rate_bps=round(rate)))
        yield plan.Link(name=far, mtu=mtu)
        return
    mac = on.chance.mac
    beyond = FAR_INDEX if study.routed else PEER_INDEX
    if under is None:
        yield plan.Link(name=near, kind="hub", mtu=mtu)
    else:
        own = plan.Uplink(mac=mac(HOST_INDEX, rank), nic=study.sut.nic, wire=near)
        yield plan.Link(name=near, kind=_joining(study, under), mtu=mtu, uplink=own)
    other = plan.Uplink(mac=mac(beyond, rank), nic=study.sut.nic, wire=near)
    yield plan.Link(name=far, mtu=mtu, uplink=other)


def plain_link(study: Study) -> plan.LinkKind:
    """What joins nodes that no host of guests stands between: a PC's have NICs of its own."""
    return "hub" if study.machine_kind.boots_whole_pcs else "bridge"


def _joining(study: Study, under: PcClass | None) -> plan.LinkKind:
    return "route" if routes_guests(study, under) else "bridge"


def is_switched(study: Study, under: PcClass | None) -> bool:
    """Whether an emulated machine's peers stand behind a bridge with a NIC for all of them."""
    return study.bench.line_rate is not None or are_guests(study, under)


def pairs(study: Study, variant: Variant, on: MachineResources) -> list[Pair]:
    """Returns the pairs that work at once in a trial: the first of the bench. The baseline's node is in
    each.
    """
    count = study.sut.guests
    own = variant.nodes * count if variant.kind.is_host else variant.nodes
    found = []
    for rank in range(count):
        ends = _routed_ends if study.routed else _direct_ends
        near, far, interfaces = ends(study, variant, rank, own[rank], on)
        number = rank + 1 if count > 1 else None
        machine = HOST if variant.kind.shares_memory else None
        place = rank if variant.kind.is_host else 0
        found.append(Pair(rank, own[rank], near, far, interfaces, number, machine, place))
    return found


def nodes_of(working: Sequence[Pair]) -> list[str]:
    """The systems under test, each once: a baseline's is in every pair."""
    return list(dict.fromkeys(pair.node for pair in working))


_Ends = tuple[End, End, tuple[str, ...]]


def _direct_ends(
    study: Study, variant: Variant, rank: int, node: str, on: MachineResources
) -> _Ends:
    machine = None if variant.kind.is_made else study.given_machine
    if machine is not None and machine.address is not None:
        far_address = on.peers_of_given.get(machine.address, "")
        return End(node, machine.address), End(peer_of_given(node), far_address), ()
    own_rank = 0 if variant.kind.is_host else rank
    near = End(node, address_of(variant.index, own_rank))
    far = End(numbered(PEER, variant.guests)[rank], address_of(PEER_INDEX, rank))
    # A driver domain that is under test itself has the bridge.
    is_driver = variant.kind.is_host and variant.kind.under_hypervisor
    return near, far, (LINK if is_driver else interface_of(node, study),)


def _routed_ends(
    study: Study, variant: Variant, rank: int, node: str, on: MachineResources
) -> _Ends:
    sides = networks(rank + 1, variant.index)
    near, far = (End(side.end, side.end_address(study.bench.family)) for side in sides)
    shared = variant.kind.is_host and study.bench.line_rate is not None
    own = networks(1, variant.index) if shared else sides
    names = [router_nic(study, variant, side, on).name for side in own]
    if shared and not study.machine_kind.boots_whole_pcs:
        names = [routers.shared_links(side)[0] for side in own]
    return near, far, tuple(names)
