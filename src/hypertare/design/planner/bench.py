"""The bench of a plot: hosts with their peers on one link, or routers between ends of their own. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial

from hypertare.design import routers
from hypertare.design.design import Variant, WholePlot, numbered
from hypertare.design.planner.knobs_and_probes import has_weights
from hypertare.design.planner.machine_resources import (
    MachineResources,
    Startable,
    files_memory,
    peer_cpus,
)
from hypertare.design.planner.network import (
    CORE_RANK,
    DRIVER_ADDRESS,
    FAR_INDEX,
    HOST,
    HOST_INDEX,
    HUB_INTERFACE,
    LIFE_INDEX,
    LINK,
    PEER,
    PEER_INDEX,
    address_of,
    interface_of,
    is_switched,
    line_between,
    mac_of,
    make_links,
    model_of,
    peer_of_given,
    plain_link,
    router_nic,
    routes_guests,
    with_prefix,
)
from hypertare.design.planner.nodes import (
    are_guests,
    cpus_of,
    cpus_of_peer,
    datapath_cpu,
    disk_of,
    host_of_guests,
    kind_of,
    peer_kind,
)
from hypertare.design.routers import Network, networks
from hypertare.platforms.platform import PcClass
from hypertare.protocol import plan
from hypertare.study import Study
from hypertare.study.machines import PEER as GIVEN_PEER


def hosts(
    study: Study,
    plot: WholePlot,
    cells: dict[str, Study],
    files: plan.Files | None,
    on: MachineResources,
) -> tuple[list[plan.Node], list[plan.Link]]:
    """Returns the nodes and links of such a bench; without a network it has no links and no peers."""
    under = host_of_guests(study, plot)
    nodes = [
        plan.Node(
            name=node,
            kind=kind_of(variant.kind, cells[variant.node], on),
            cpus=cpus_of(variant, study, under, on),
            interfaces=_interfaces(cells[variant.node], variant, rank, on),
            files=files,
            disk=disk_of(study, variant),
        )
        for variant in plot.variants
        for rank, node in enumerate(variant.nodes)
    ]
    if under:
        nodes.insert(0, _host_node(study, under, on))
    if not study.needs_network:
        return nodes, []
    links = make_links(study, under, on)
    nodes += _peers_of_given(plot, cells, on)
    # Servers on peers have the files of the systems under test, without the devices.
    if files is not None:
        files = files.model_copy(update={"devices": ()}) if study.peers_need_files else None
    return [*nodes, *_peers(study, links[-1], under, files, on)], links


def _host_node(study: Study, under: PcClass, on: MachineResources) -> plan.Node:
    """Returns the node of the guests' host. If it routes them, the PC's own NIC is an interface of the
    node.
    """
    if not routes_guests(study, under):
        return plan.Node(name=HOST, kind=plan.Host())
    uplink = plan.Interface(
        name=HUB_INTERFACE,
        link=LINK,
        address=with_prefix(DRIVER_ADDRESS, study),
        mac=on.chance.mac(HOST_INDEX),
        nic=study.sut.nic,
    )
    router = plan.Router(ipv6=False)
    return plan.Node(name=HOST, kind=plan.Host(), interfaces=(uplink,), router=router)


def _interfaces(
    study: Study, variant: Variant, rank: int, on: MachineResources
) -> tuple[plan.Interface, ...]:
    """Returns the interface of a node under test; nothing without a network, or for a given machine."""
    if not study.needs_network or not variant.kind.is_made:
        return ()
    name = interface_of(variant.node, study) if study.machine_kind.boots_whole_pcs else "eth0"
    return (_interface(study, variant, rank, on, name, variant.index),)


def _interface(
    study: Study, variant: Variant, rank: int, on: MachineResources, name: str, index: int
) -> plan.Interface:
    return plan.Interface(
        name=name,
        link=LINK,
        address=with_prefix(address_of(index, rank), study),
        mac=mac_of(variant, rank, study, on, index),
        nic=model_of(variant, study),
    )


def like(
    variant: Variant, rank: int, study: Study, under: PcClass | None, on: MachineResources
) -> plan.Node:
    """Returns a node like the system under test, for workloads that make one within a trial.

    On a bench of hosts it has an interface of its own on the link, unless it is like the baseline: then it
    uses its machine's network.
    """
    interfaces: tuple[plan.Interface, ...] = ()
    if study.needs_network and not study.routed and not variant.kind.is_host:
        own = _interface(study, variant, rank, on, "eth0", LIFE_INDEX)
        # Peers remember it of the one that lived before.
        mac = own.mac or f"52:54:00:77:{rank:02x}:{LIFE_INDEX + 2:02x}"
        interfaces = (own.model_copy(update={"mac": mac}),)
    return plan.Node(
        name=variant.node,
        kind=kind_of(variant.kind, study, on),
        cpus=cpus_of(variant, study, under, on),
        interfaces=interfaces,
    )


def _peers_of_given(
    plot: WholePlot, cells: dict[str, Study], on: MachineResources
) -> Iterator[plan.Node]:
    """Yields the peers of given machines: processes on this host's own network, or a machine that is given
    too.
    """
    for variant in plot.variants:
        if variant.kind.is_made:
            continue
        study = cells[variant.node]
        there = study.given.get(GIVEN_PEER)
        cpus = peer_cpus(study.sut.cpus, on)
        kind = plan.Given(
            reach=there.words if there else (),
            cpus=1 if there else len(cpus),
            settings=there is not None and there.settings,
        )
        bound = () if there else cpus
        yield plan.Node(name=peer_of_given(variant.node), kind=kind, cpus=bound)


def _peers(
    study: Study,
    link: plan.Link,
    under: PcClass | None,
    files: plan.Files | None,
    on: MachineResources,
) -> Iterator[plan.Node]:
    """Yields the peers, one for each system under test that works at the same time."""
    # The far bridge's NIC has the address that a single peer's would have.
    switched = is_switched(study, under)
    first = 1 if switched else 0
    own_nics = study.machine_kind.boots_whole_pcs
    for rank, name in enumerate(numbered(PEER, study.bench_guests)):
        interface = plan.Interface(
            name="eth0",
            link=link.name,
            address=with_prefix(address_of(PEER_INDEX, rank), study),
            mac=on.chance.mac(PEER_INDEX, rank + first) if own_nics else None,
            nic=study.sut.nic if own_nics and not switched else None,
        )
        yield plan.Node(
            name=name,
            kind=peer_kind(study, under, on),
            cpus=cpus_of_peer(study, under, on),
            interfaces=(interface,),
            files=files,
        )


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


def make_bench(
    study: Study, plot: WholePlot, cells: dict[str, Study], on: MachineResources
) -> plan.Bench:
    """The bench of a plot.

    Args:
        study: the study with the plot's hard levels in place.
        plot: the plot.
        cells: by node, the study with that variant's levels in place too.
        on: what the machine gives.
    """
    topology = routed if study.routed else hosts
    of_datapath = datapath_cpu(plot, cells, study, on)
    rest = tuple(cpu for cpu in on.cpus if cpu != of_datapath)
    on = replace(on, datapath_cpu=of_datapath, cpus=rest)
    nodes, links = topology(study, plot, cells, _files(study, on), on)
    # With what a machine under Xen, and its driver domain, must have been booted.
    scheduler, driver = None, None
    under = host_of_guests(study, plot)
    if under is not None and under.has_driver_domain:
        scheduler = study.sut.scheduler
        count = study.sut.virtual_cpus_of_driver
        apart = study.sut.pinning == "apart"
        driver = plan.VirtualCpus(count=count, on=tuple(range(count)) if apart else ())
    return plan.Bench(
        name=study.name,
        nodes=tuple(nodes),
        links=tuple(links),
        weights=has_weights(study),
        scheduler=scheduler,
        driver=driver,
        datapath_cpu=of_datapath,
    )


def way(study: Study, plot: WholePlot, on: MachineResources) -> list[plan.Link]:
    """The links of a plot's bench that packets of its workloads take."""
    if not study.needs_network:
        return []
    links = routed_links if study.routed else make_links
    return links(study, host_of_guests(study, plot), on)


def _files(study: Study, on: MachineResources) -> plan.Files | None:
    """Returns the files that commands work on; None if no workload needs files or no directory is given."""
    if not study.needs_files or on.workdir is None:
        return None
    return plan.Files(
        workdir=on.workdir,
        memory=files_memory(study.sut.memory),
        devices=study.sut.devices,
        root=None if on.image is None else on.image.root,
        host_name=on.likeness.host_name,
        limits=on.likeness.limits,
    )
