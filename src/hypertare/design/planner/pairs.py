"""Systems under test with the ends of their traffic."""

from __future__ import annotations

from collections.abc import Sequence

from hypertare.design import routers
from hypertare.design.design import Variant, numbered
from hypertare.design.planner.addresses import (
    HOST,
    LINK,
    PEER,
    PEER_INDEX,
    address_of,
    interface_of,
    peer_of_given,
    router_nic,
)
from hypertare.design.planner.machine_resources import MachineResources
from hypertare.design.routers import networks
from hypertare.study import Study
from hypertare.workloads.pair import End, Pair


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
