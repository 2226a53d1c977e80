"""The knobs that a trial sets and the probes that it reads, and the nodes on which it does."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from hypertare.design import routers
from hypertare.design.design import Variant, WholePlot, numbered
from hypertare.design.planner.machine_resources import MachineResources
from hypertare.design.planner.network import HOST, HUB_INTERFACE, PEER, nodes_of
from hypertare.design.planner.nodes import OF_DATAPATH, accelerator_of, datapath_of
from hypertare.knobs.knob import OF_GIVEN, KnobKind, Place, Target
from hypertare.knobs.registry import KINDS as KNOBS
from hypertare.platforms.guest_settings import BESIDE_GUESTS, OUR_DATAPATHS
from hypertare.platforms.registry import has_own
from hypertare.probes.probe import Place as ProbePlace
from hypertare.probes.probe import ProbeKind
from hypertare.probes.registry import KINDS as PROBES
from hypertare.protocol import plan
from hypertare.protocol.constants import NAPI_MODULE
from hypertare.study import Study
from hypertare.study.machines import PEER as GIVEN_PEER
from hypertare.workloads.pair import Pair

_PLACES: tuple[Place, ...] = (
    *("link", "way", "interface", "line", "uplink", "driver", "guest", "kernel", "below"),
)
"""All places of knobs, in the order in which a trial sets them."""


def knob_settings(
    study: Study,
    variant: Variant,
    working: Sequence[Pair],
    links: Sequence[plan.Link],
    own_machine: bool,
) -> list[plan.KnobSetting]:
    """Returns the settings of all knobs for a trial.

    `links` are the links of the bench. `own_machine` states that the system under test is no part of this
    host.
    """
    knobs = study.knobs
    if knobs.mtu is None and study.largest_mtu > study.bench.mtu:
        # The bench is made for a larger one.
        knobs = knobs.model_copy(update={"mtu": study.bench.mtu})
    given = [kind for kind in knobs.given() if own_machine or not kind.for_own_machines]
    settings = [
        plan.KnobSetting(node=target.node, knob=knob)
        for place in _PLACES
        for target in _targets(place, study, variant, working, links)
        for kind in given
        if kind.place == place
        for knob in kind.for_agent(knobs.level(kind), target)
    ]
    # A knob of a node, and not of an interface, is set once for all interfaces of the node.
    return list({repr(setting): setting for setting in settings}.values())


def _targets(
    place: Place,
    study: Study,
    variant: Variant,
    working: Sequence[Pair],
    links: Sequence[plan.Link],
) -> list[Target]:
    if not variant.kind.is_made:
        return _of_given(place, study, working)
    nodes = nodes_of(working)
    match place:
        case "link":
            return _ends(study, working)
        case "way":
            return [*_ends(study, working), *_between(links)]
        case "interface":
            return _interfaces(working)
        case "line":
            return list(_at_lines(working, links))
        case "uplink":
            # By which the driver domain sends. At the peers' end a wire is named after another link.
            own = [
                one.uplink for one in links if one.uplink and one.uplink.wire in (None, one.name)
            ]
            return [Target(HOST, nic.mac) for nic in own if variant.kind.under_hypervisor]
        case "driver":
            return [Target(HOST)] if _is_weighted(study, variant) else []
        case "guest":
            weighted = nodes if _is_weighted(study, variant) else ()
            return [Target(HOST, guest=guest, rank=rank) for rank, guest in enumerate(weighted)]
        case "kernel":
            kernels = nodes if variant.kind.has_own_kernel else (HOST,)
            return [Target(node) for node in kernels]
        case "below":
            return [Target(HOST)] if variant.kind.is_backed_by_host else []


def _of_given(place: Place, study: Study, working: Sequence[Pair]) -> list[Target]:
    """Returns the targets on given machines.

    A given machine finds its interface by the address to which packets are sent. The other end is a target
    too if it is a given machine whose settings may be changed; this host's own network is never changed.
    """
    machine, peer = study.given_machine, study.given.get(GIVEN_PEER)
    if place not in OF_GIVEN:
        return []
    if place == "kernel":
        return [Target(node) for node in nodes_of(working)]
    address = (machine.address or "") if machine is not None else ""
    found = [Target(node, address) for node in nodes_of(working)]
    if place != "interface" and study.needs_network and peer is not None and peer.settings:
        found += [Target(node, peer.address or "") for pair in working for node in pair.others]
    return found


def _ends(study: Study, working: Sequence[Pair]) -> list[Target]:
    if not study.needs_network:
        return _interfaces(working)
    far = (Target(node, "eth0") for pair in working for node in pair.others)
    return [*_interfaces(working), *far]


def _between(links: Sequence[plan.Link]) -> Iterator[Target]:
    """Yields the targets of the node `host` between both ends: the ports of bridges, and the NIC that it
    routes to.
    """
    for link in links:
        if link.kind == "bridge":
            yield Target(HOST, link.name, between="ports")
        elif link.kind == "route":
            yield Target(HOST, HUB_INTERFACE, between="itself")


def _at_lines(working: Sequence[Pair], links: Sequence[plan.Link]) -> Iterator[Target]:
    """Yields the cards at both ends of lines. Without a host of guests the system under test has the near
    card.
    """
    for link in links:
        if link.uplink is not None:
            yield Target(HOST, link.uplink.mac)
    if any(link.kind == "hub" for link in links):
        yield from _interfaces(working)


def _interfaces(working: Sequence[Pair]) -> list[Target]:
    """Returns the interfaces of the systems under test, each once, since the baseline's node is in every
    pair.
    """
    found = [Target(pair.node, name) for pair in working for name in pair.interfaces]
    return list(dict.fromkeys(found))


def _is_weighted(study: Study, variant: Variant) -> bool:
    """Whether guests share CPUs by weight: in Xen's scheduler, or by their cgroups."""
    by = variant.kind.weighted_by
    return by == "hypervisor" or (by == "cgroups" and has_weights(study))


_WEIGHTS: tuple[Place, ...] = ("driver", "guest")
"""The places of knobs that set CPU weights."""


def has_weights(study: Study) -> bool:
    """Whether guests of this host have CPU weights, which a bench must be made for."""
    asked = any(_is_asked(study, kind) for kind in KNOBS if kind.place in _WEIGHTS)
    there = any(platform.weighted_by == "cgroups" for platform in study.platforms)
    return asked and there and study.machine_kind.weighs_guests


def _is_asked(study: Study, kind: KnobKind[Any]) -> bool:
    """Whether any cell may set it."""
    return study.knobs.level(kind) is not None or f"knobs.{kind.name}" in study.all_factors


def warnings(study: Study, on: MachineResources) -> list[str]:
    """Returns warnings about knobs that do not reach every platform and about settings that may mislead."""
    return [
        *_unlike_the_users(study, on),
        *_shared_sidecore(study, on),
        *_out_of_reach(study),
        *_of_one_end(study),
    ]


def _of_one_end(study: Study) -> list[str]:
    """Returns warnings about link knobs that are set on a given machine alone and not on its peer."""
    peer = study.given.get(GIVEN_PEER)
    if not study.given_at_work or not study.needs_network or (peer and peer.settings):
        return []
    varied = {path.split(".")[1] for path in study.all_factors if path.startswith("knobs.")}
    of_links = [kind for kind in KNOBS if kind.place in ("link", "way")]
    both = [one.name for one in of_links if study.knobs.level(one) or one.name in varied]
    other = f"given.{GIVEN_PEER}, without settings = true," if peer else "this host, the other end,"
    return [f"knobs.{name} is set on the machine alone: {other} is left as it is" for name in both]


def _unlike_the_users(study: Study, on: MachineResources) -> list[str]:
    """Returns warnings on how the network of this host's guests differs from common setups.

    A study that varies the datapath needs no such warning.
    """
    if not study.machine_kind.is_sandboxed or not study.needs_network:
        return []
    if OF_DATAPATH in study.all_factors:
        return []
    unlike = (one.unlike_by_datapath.get(datapath_of(study, on)) for one in study.platforms)
    return [text for text in unlike if text is not None]


def _shared_sidecore(study: Study, on: MachineResources) -> list[str]:
    """Returns a warning if the core that polls has no CPU of its own beside those of the guests and the
    peers.

    An emulated machine always has such a CPU.
    """
    asked = study.levels(OF_DATAPATH)
    needed = study.sut.cpus + BESIDE_GUESTS
    if "sidecore" not in asked or not study.machine_kind.is_sandboxed or len(on.cpus) >= needed:
        return []
    return [
        f"sut.datapath = 'sidecore': the core that polls shares its CPU with the guest or its peers, since "
        f"this run has {len(on.cpus)} CPUs and needs {needed}: its figures are too bad, and vary"
    ]


def _out_of_reach(study: Study) -> list[str]:
    platforms = [platform.name for platform in study.platforms if not platform.has_own_kernel]
    if not study.machine_kind.is_sandboxed or not platforms:
        return []
    asked = [kind.name for kind in KNOBS if kind.for_own_machines and _is_asked(study, kind)]
    found = [
        f"knobs.{name} is for guests: {' and '.join(platforms)} share their host's, which is left alone"
        for name in asked
    ]
    caveats = (platform.caveat_of_baseline for platform in study.platforms)
    return [*found, *(caveat for caveat in caveats if caveat is not None)]


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
