"""The bench of routers between ends of their own: see `hypertare.design.routers`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from hypertare.design import routers
from hypertare.design.design import Variant, WholePlot
from hypertare.design.planner.addresses import (
    CORE_RANK,
    FAR_INDEX,
    HOST,
    HOST_INDEX,
    PEER_INDEX,
    router_nic,
)
from hypertare.design.planner.links import line_between, plain_link
from hypertare.design.planner.machine_resources import MachineResources, Startable
from hypertare.design.planner.nodes import (
    are_guests,
    cpus_of,
    cpus_of_peer,
    host_of_guests,
    kind_of,
    peer_kind,
)
from hypertare.design.routers import Network, networks
from hypertare.platforms.pc_class import PcClass
from hypertare.protocol import plan
from hypertare.study import Study


def routed(
    study: Study,
    plot: WholePlot,
    cells: dict[str, Study],
    files: plan.Files | None,
    on: MachineResources,
) -> tuple[list[plan.Node], list[plan.Link]]:
    """Returns the nodes and links of such a bench."""
    under = host_of_guests(study, plot)
    count = study.bench_guests
    queue = None
    if study.bench.queue is not None or study.bench.queue_length is not None:
        queue = plan.Queue(discipline=study.bench.queue, length=study.bench.queue_length)
    nodes = [plan.Node(name=HOST, kind=plan.Host())] if under else []
    for variant in plot.variants:
        for rank, name in enumerate(variant.nodes):
            node = routers.router(
                name,
                kind_of(variant.kind, cells[variant.node], on),
                range(1, count + 1) if variant.kind.is_host else (rank + 1,),
                way=variant.index,
                settings=plan.Router(queue=queue),
                cpus=cpus_of(variant, study, under, on),
                nics=partial(router_nic, cells[variant.node], variant, on=on),
            )
            # The baseline's one node already knows every network.
            if (
                not variant.kind.is_host
                and study.bench.routing_of(rank + 1) == "ospf"
                and on.daemon
            ):
                node = _learning(node, study, variant, rank + 1, on.daemon, on)
            nodes.append(node.model_copy(update={"files": files}))
    ways = [variant.index for variant in plot.variants]
    nodes += [_routed_end(study, side, ways, under, on) for side in routers.all_sides(count)]
    links = routed_links(study, under, on)
    if study.bench.line_rate is not None:
        nodes = [routers.on_shared_lines(node, count) for node in nodes]
    # On the links between routers only these speak, by OSPF; no other link is behind them.
    used = {interface.link for node in nodes for interface in node.interfaces}
    kind = plain_link(study) if under is None else "bridge"
    cores = [name for name in map(routers.core, ways) if name in used]
    links += [plan.Link(name=name, kind=kind, mtu=study.largest_mtu) for name in cores]
    return nodes, links


def _learning(
    node: plan.Node,
    study: Study,
    variant: Variant,
    number: int,
    daemon: Startable,
    on: MachineResources,
) -> plan.Node:
    """Returns the router with a daemon by which it learns of networks by OSPF."""
    argv = daemon.here
    mac = None
    if study.machine_kind.boots_whole_pcs:
        mac = on.chance.mac(variant.index, CORE_RANK + number)
    elif variant.kind.nic == "modelled":
        mac = f"52:54:00:78:{number:02x}:{variant.index + 2:02x}"
    nic = routers.Nic("eth2", mac, node.interfaces[0].nic)
    core = routers.core_interface(number, variant.index, nic)
    if isinstance(node.kind, plan.Guest | plan.Domain):
        argv = daemon.in_guest
        archives = (*node.kind.initramfs, daemon.archive)
        kind = node.kind.model_copy(update={"initramfs": archives})
        node = node.model_copy(update={"kind": kind})
    return routers.speaking_ospf(node, core, argv)


def _routed_end(
    study: Study, side: Network, ways: Sequence[int], under: PcClass | None, on: MachineResources
) -> plan.Node:
    own_nics = study.machine_kind.boots_whole_pcs
    mac = on.chance.mac(PEER_INDEX, side.rank) if own_nics else None
    model = study.sut.nic if own_nics and not are_guests(study, under) else None
    return routers.end(
        side,
        peer_kind(study, under, on),
        ways=ways,
        cpus=cpus_of_peer(study, under, on),
        nic=routers.Nic("eth0", mac, model),
        link=routers.beyond(side) if under else side.link,
    )


def routed_links(study: Study, under: PcClass | None, on: MachineResources) -> list[plan.Link]:
    """Returns the links that the packets of the end nodes take."""
    if study.bench.line_rate is None:
        return list(_own_links(study, under, on))
    # One line on each side of all routers, with the bridges or the hub at its ends.
    found: list[plan.Link] = []
    for side in networks(1):
        near, far = routers.shared_links(side)
        found += line_between(study, near, far, side.rank, under, on)
    return found


def _own_links(study: Study, under: PcClass | None, on: MachineResources) -> Iterator[plan.Link]:
    """Yields the two links of each router, which no other router shares.

    If the machine hosts guests, each is a bridge with a NIC of the PC, and a second link follows at the
    NIC's other end: a hub, or one more such bridge if the end nodes are guests.
    """
    mtu = study.largest_mtu
    for side in routers.all_sides(study.bench_guests):
        if under is None:
            yield plan.Link(name=side.link, kind=plain_link(study), mtu=mtu)
            continue
        wire = routers.beyond(side)
        near, far = (
            plan.Uplink(mac=on.chance.mac(index, side.rank), nic=study.sut.nic, wire=wire)
            for index in (HOST_INDEX, FAR_INDEX)
        )
        yield plan.Link(name=side.link, mtu=mtu, uplink=near)
        if study.bench.peers_are_guests:
            yield plan.Link(name=wire, mtu=mtu, uplink=far)
        else:
            yield plan.Link(name=wire, kind="hub", mtu=mtu)
