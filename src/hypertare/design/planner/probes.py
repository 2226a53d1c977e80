"""The probes that a trial reads, and the nodes on which it reads them."""

from __future__ import annotations

from collections.abc import Sequence

from hypertare.design import routers
from hypertare.design.design import Variant, WholePlot, numbered
from hypertare.design.planner.addresses import HOST, PEER
from hypertare.design.planner.machine_resources import MachineResources
from hypertare.design.planner.nodes import OF_DATAPATH, accelerator_of, datapath_of
from hypertare.design.planner.pairs import nodes_of
from hypertare.platforms.guest_settings import OUR_DATAPATHS
from hypertare.platforms.registry import has_own
from hypertare.probes.probe import Place as ProbePlace
from hypertare.probes.probe import ProbeKind
from hypertare.probes.registry import KINDS as PROBES
from hypertare.protocol import plan
from hypertare.protocol.constants import NAPI_MODULE
from hypertare.study import Study
from hypertare.workloads.pair import Pair


def probes_of(
    study: Study,
    workload: str,
    variant: Variant,
    plot: WholePlot,
    working: Sequence[Pair],
    own_machine: bool,
    warmup: bool,
    on: MachineResources,
) -> list[plan.ProbeRequest]:
    """Returns the requests for all probes; `own_machine`: the system under test is no part of this host."""
    wanted = [kind for kind in PROBES if _is_wanted(kind, study, workload, warmup)]
    nodes = nodes_of(working)
    machines = nodes if own_machine else []
    backed = nodes if variant.kind.is_backed_by_host else []
    has_kvm = study.machine_kind.guests_have_kvm or accelerator_of(study, on) == "kvm"
    guests = nodes if variant.kind.is_counted_by_kvm and has_kvm else []
    counts_way = machines and any("way" in kind.places for kind in wanted)
    others = _others(variant, working) if counts_way else []
    has_datapath = has_own(variant.kind, OF_DATAPATH)
    served = nodes if has_datapath and datapath_of(study, on) in OUR_DATAPATHS else []
    asked: list[tuple[ProbePlace, Sequence[str]]] = [
        ("outside", _seen_from_outside(study, variant, plot, nodes)),
        ("host", [HOST]),
        ("machine", machines),
        ("way", others),
        ("peer", [node for node in others if node != HOST]),
        ("kernel", [HOST, *backed]),
        ("processor", [HOST]),
        ("guest", guests),
        ("datapath", served),
        ("shared", [] if study.machine_kind.boots_whole_pcs else [HOST]),
    ]
    found = [
        plan.ProbeRequest(node=node, probe=kind.name)
        for place, there in asked
        for node in there
        for kind in wanted
        if place in kind.places
    ]
    return list(dict.fromkeys(found))


def _is_wanted(kind: ProbeKind, study: Study, workload: str, warmup: bool) -> bool:
    if kind.is_of_network and not study.needs_network:
        return False
    chosen = (*study.probes, *study.workloads[workload].probes)
    if kind.in_warmups_with is not None:
        return warmup and kind.in_warmups_with in chosen
    return not kind.is_optional or kind.name in chosen


def counts_in_warmups(study: Study, on: MachineResources) -> bool:
    """Whether polls must be counted in warm-ups, since a kernel lacks the module that counts them in any
    trial.

    That kernel is a guest's, or that of a host which hypertare does not boot. For such a host it counts
    only if the study itself names its probes: the default ones are not worth one more trial of each cell.
    """
    chosen = {*study.probes, *(one for work in study.workloads.values() for one in work.probes)}
    apart = chosen & {kind.in_warmups_with for kind in PROBES}
    lacking = any(NAPI_MODULE not in image.modules for image in on.images.values())
    somebodys = (
        "probes" in study.model_fields_set
        and not study.machine_kind.boots_whole_pcs
        and any(platform.image is None for platform in study.platforms)
    )
    return bool(apart) and study.needs_network and (lacking or somebodys)


def _others(variant: Variant, working: Sequence[Pair]) -> list[str]:
    """Who else may drop a packet: a peer, and the machine that a guest's frames pass through."""
    peers = [node for pair in working for node in pair.others]
    return [*peers, HOST] if variant.kind.packets_moved_by_host else peers


def _seen_from_outside(
    study: Study, variant: Variant, plot: WholePlot, nodes: Sequence[str]
) -> list[str]:
    machine = study.given_machine
    is_known = variant.kind.is_made or (machine is not None and machine.outside is not None)
    own = nodes if variant.kind.is_seen_from_outside and is_known else []
    if not variant.kind.under_hypervisor:
        return [*own]
    # All domains of a bench under Xen, idle ones included: their sum is the machine's CPU time.
    guests = (v for v in plot.variants if v.kind.under_hypervisor and not v.kind.is_host)
    found = [*own, HOST, *(node for guest in guests for node in guest.nodes)]
    if study.needs_network and study.bench.peers_are_guests:
        count = variant.guests
        sides = [side.end for side in routers.all_sides(count)]
        found += sides if study.routed else numbered(PEER, count)
    return found
