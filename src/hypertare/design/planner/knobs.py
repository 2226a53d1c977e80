"""The knobs that a trial sets, and the nodes and interfaces on which it sets them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from hypertare.design.design import Variant
from hypertare.design.planner.addresses import HOST, HUB_INTERFACE
from hypertare.design.planner.machine_resources import MachineResources
from hypertare.design.planner.nodes import OF_DATAPATH, datapath_of
from hypertare.design.planner.pairs import nodes_of
from hypertare.knobs.knob import OF_GIVEN, KnobKind, Place, Target
from hypertare.knobs.registry import KINDS as KNOBS
from hypertare.platforms.guest_settings import BESIDE_GUESTS
from hypertare.protocol import plan
from hypertare.study import Study
from hypertare.study.given import PEER as GIVEN_PEER
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
