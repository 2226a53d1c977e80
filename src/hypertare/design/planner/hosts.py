"""The bench of hosts: each system under test with its own peer, on one link."""

from __future__ import annotations

from collections.abc import Iterator

from hypertare.design.design import Variant, WholePlot, numbered
from hypertare.design.planner.addresses import (
    DRIVER_ADDRESS,
    HOST,
    HOST_INDEX,
    HUB_INTERFACE,
    LIFE_INDEX,
    LINK,
    PEER,
    PEER_INDEX,
    address_of,
    interface_of,
    mac_of,
    model_of,
    peer_of_given,
    with_prefix,
)
from hypertare.design.planner.links import is_switched, make_links, routes_guests
from hypertare.design.planner.machine_resources import MachineResources, peer_cpus
from hypertare.design.planner.nodes import (
    cpus_of,
    cpus_of_peer,
    disk_of,
    host_of_guests,
    kind_of,
    peer_kind,
)
from hypertare.platforms.pc_class import PcClass
from hypertare.protocol import plan
from hypertare.study import Study
from hypertare.study.given import PEER as GIVEN_PEER


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
