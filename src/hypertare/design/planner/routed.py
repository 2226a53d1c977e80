"""The bench of routers between ends of their own: see `hypertare.design.routers`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

from hypertare.design import routers
from hypertare.design.design import Plot
from hypertare.design.pc import PcClass
from hypertare.design.planner.addresses import (
    CORE_RANK,
    FAR_INDEX,
    HOST,
    HOST_INDEX,
    PEER_INDEX,
    router_nic,
)
from hypertare.design.planner.links import line_between
from hypertare.design.planner.nodes import (
    domain,
    host_of_guests,
    is_placed_by_others,
    kind_of,
)
from hypertare.design.planner.surroundings import Surroundings, peer_cpus, sut_cpus
from hypertare.design.routers import Network, networks
from hypertare.protocol import plan
from hypertare.study import BASELINE, Study


def routed(
    study: Study, plot: Plot, cells: dict[str, Study], files: plan.Files | None, on: Surroundings
) -> tuple[list[plan.Node], list[plan.Link]]:
    """Their nodes and links."""
    under = host_of_guests(plot, on)
    count = study.bench_guests
    settings = plan.Router(queue=_queue(study))
    nodes = [
        routers.router(
            node,
            kind_of(variant, cells[variant.node], on),
            range(1, count + 1) if variant.platform == BASELINE else (rank + 1,),
            way=variant.index,
            settings=settings,
            cpus=() if is_placed_by_others(variant, under) else sut_cpus(study.sut.cpus, on),
            nics=partial(router_nic, cells[variant.node].sut.nic, variant, on=on),
        )
        for variant in plot.variants
        for rank, node in enumerate(variant.nodes)
    ]
    learning = _learning(study, plot, on)
    nodes = [learning(node).model_copy(update={"files": files}) for node in nodes]
    if under:
        nodes.insert(0, plan.Node(name=HOST, kind=plan.Host()))
    ways = [variant.index for variant in plot.variants]
    nodes += [_routed_end(study, side, ways, under, on) for side in routers.all_sides(count)]
    links = list(_routed_links(study, under, count, on))
    if study.bench.line_rate is not None:
        links = list(_shared_lines(study, under, on))
        nodes = [routers.on_shared_lines(node, count) for node in nodes]
    return nodes, [*links, *_cores(nodes, ways, under, study.largest_mtu, on)]


def _learning(study: Study, plot: Plot, on: Surroundings) -> Callable[[plan.Node], plan.Node]:
    """What makes routers that learn by OSPF of those that do. The baseline's one node knows every
    network already.
    """
    places = {
        node: (variant, rank + 1)
        for variant in plot.variants
        for rank, node in enumerate(variant.nodes)
        if variant.platform != BASELINE and study.bench.routing_of(rank + 1) == "ospf"
    }

    def learn(node: plan.Node) -> plan.Node:
        if node.name not in places or on.daemon is None:
            return node
        variant, number = places[node.name]
        mac, argv = None, on.daemon.here
        if on.chance:
            mac = on.chance.mac(variant.index, CORE_RANK + number)
        elif not isinstance(node.kind, plan.Container):
            mac = f"52:54:00:78:{number:02x}:{variant.index + 2:02x}"
        nic = routers.Nic("eth2", mac, node.interfaces[0].nic)
        core = routers.core_interface(number, variant.index, nic)
        if isinstance(node.kind, plan.Guest | plan.Domain):
            argv = on.daemon.in_guest
            archives = (*node.kind.initramfs, on.daemon.archive)
            kind = node.kind.model_copy(update={"initramfs": archives})
            node = node.model_copy(update={"kind": kind})
        return routers.speaking_ospf(node, core, argv)

    return learn


def _cores(
    nodes: Sequence[plan.Node],
    ways: Sequence[int],
    under: PcClass | None,
    mtu: int,
    on: Surroundings,
) -> Iterator[plan.Link]:
    """Where routers speak with each other: nobody else is on it, nor any other link behind it."""
    used = {interface.link for node in nodes for interface in node.interfaces}
    hub = on.chance is not None and under is None
    for name in map(routers.core, ways):
        if name in used:
            yield plan.Link(name=name, kind="hub" if hub else "bridge", mtu=mtu)


def _routed_end(
    study: Study, side: Network, ways: Sequence[int], under: PcClass | None, on: Surroundings
) -> plan.Node:
    is_guest = under is not None and study.bench.peers == "guest"
    mac = on.chance.mac(PEER_INDEX, side.rank) if on.chance else None
    model = study.sut.nic if on.chance and not is_guest else None
    return routers.end(
        side,
        domain(study, on) if is_guest else plan.Container(),
        ways=ways,
        cpus=() if under else peer_cpus(study.sut.cpus, on),
        nic=routers.Nic("eth0", mac, model),
        link=routers.beyond(side) if under else side.link,
    )


def _routed_links(
    study: Study, under: PcClass | None, count: int, on: Surroundings
) -> Iterator[plan.Link]:
    """Two for each router, on which nobody else is. Under a hypervisor each is a bridge with a NIC of
    the PC, and what is beyond that: a hub, or for ends that are guests one more such bridge.
    """
    mtu = study.largest_mtu
    for side in routers.all_sides(count):
        if under is None:
            yield plan.Link(name=side.link, kind="hub" if on.chance else "bridge", mtu=mtu)
            continue
        assert on.chance is not None
        wire = routers.beyond(side)
        near, far = (
            plan.Uplink(mac=on.chance.mac(index, side.rank), nic=study.sut.nic, wire=wire)
            for index in (HOST_INDEX, FAR_INDEX)
        )
        yield plan.Link(name=side.link, mtu=mtu, uplink=near)
        if study.bench.peers == "guest":
            yield plan.Link(name=wire, mtu=mtu, uplink=far)
        else:
            yield plan.Link(name=wire, kind="hub", mtu=mtu)


def _shared_lines(study: Study, under: PcClass | None, on: Surroundings) -> Iterator[plan.Link]:
    """One line on each side of all routers, with the bridges or the hub at its ends."""
    for side in networks(1):
        near, far = routers.shared_links(side)
        yield from line_between(study, near, far, side.rank, under, on)


def _queue(study: Study) -> plan.Queue | None:
    bench = study.bench
    if bench.queue is None and bench.queue_length is None:
        return None
    return plan.Queue(discipline=bench.queue, length=bench.queue_length)
