"""What is set for a trial, and where."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from hypertare.design.design import Variant
from hypertare.design.planner.addresses import HOST
from hypertare.design.planner.pairs import nodes_of
from hypertare.design.planner.surroundings import Surroundings
from hypertare.knobs.knob import KnobKind, Place, Target
from hypertare.knobs.registry import KINDS, Knobs
from hypertare.protocol import plan
from hypertare.study import BASELINE, Study
from hypertare.workloads.pair import Pair

_PLACES: tuple[Place, ...] = ("link", "interface", "driver", "guest", "kernel", "below")
"""In the order in which they are set."""


def knob_settings(
    study: Study, variant: Variant, working: Sequence[Pair], own_machine: bool, on: Surroundings
) -> list[plan.KnobSetting]:
    """All that is set; `own_machine`: whether what is under test is no part of this host."""
    knobs = _with_mtu(study)
    given = [kind for kind in knobs.given() if own_machine or not kind.for_own_machines]
    settings = [
        plan.KnobSetting(node=target.node, knob=told)
        for place in _PLACES
        for target in _targets(place, study, variant, working, on)
        for kind in given
        if kind.place == place
        for told in kind.told(knobs.level(kind), target)
    ]
    # What is of a node and not of its interface is set once.
    return list({repr(setting): setting for setting in settings}.values())


def _with_mtu(study: Study) -> Knobs:
    """A bench that is made for a larger MTU has it until it is told another."""
    knobs = study.knobs
    if knobs.mtu is None and study.largest_mtu > study.bench.mtu:
        return knobs.model_copy(update={"mtu": study.bench.mtu})
    return knobs


def _targets(
    place: Place, study: Study, variant: Variant, working: Sequence[Pair], on: Surroundings
) -> list[Target]:
    nodes = nodes_of(working)
    match place:
        case "link":
            return [
                *_interfaces(working),
                *(_far_interfaces(working) if study.needs_network else ()),
            ]
        case "interface":
            return _interfaces(working)
        case "driver":
            return [Target(HOST)] if _is_weighted(study, variant, on) else []
        case "guest":
            weighted = nodes if _is_weighted(study, variant, on) else ()
            return [Target(HOST, guest=guest, rank=rank) for rank, guest in enumerate(weighted)]
        case "kernel":
            own = (HOST,) if variant.platform in (BASELINE, "container") else nodes
            return [Target(node) for node in own]
        case "below":
            return [Target(HOST)] if variant.platform == "guest" else []


def _interfaces(working: Sequence[Pair]) -> list[Target]:
    """Of what is under test, each once: a baseline's node is in every pair."""
    found = [Target(pair.node, name) for pair in working for name in pair.interfaces]
    return list(dict.fromkeys(found))


def _far_interfaces(working: Sequence[Pair]) -> Iterator[Target]:
    """Of the ends that are not under test."""
    return (Target(node, "eth0") for pair in working for node in pair.others)


def _is_weighted(study: Study, variant: Variant, on: Surroundings) -> bool:
    """Whether guests share CPUs by weight: in Xen's scheduler, or by their cgroups."""
    return variant.platform == "xen" or (variant.platform == "guest" and has_weights(study, on))


def has_weights(study: Study, on: Surroundings) -> bool:
    """Whether guests of this host have CPU weights, which a bench must be made for."""
    asked = any(_is_asked(study, kind) for kind in KINDS if kind.place in ("driver", "guest"))
    return asked and "guest" in study.sut.platforms and on.chance is None


def _is_asked(study: Study, kind: KnobKind[Any]) -> bool:
    """Whether any cell may set it."""
    return study.knobs.level(kind) is not None or f"knobs.{kind.name}" in study.all_factors


def warnings(study: Study) -> list[str]:
    """What of the study does not reach every platform, or is not what it may seem."""
    return [*_unlike_the_users(study), *_out_of_reach(study)]


def _unlike_the_users(study: Study) -> list[str]:
    """How guests of this host differ from those that people have."""
    if study.machine != "local" or "guest" not in study.sut.platforms or not study.needs_network:
        return []
    return [
        "guests' packets go through QEMU's process (vhost=off, one queue): under libvirt, Proxmox or "
        "OpenStack the host's kernel moves those of virtio-net (vhost-net), which costs less"
    ]


def _out_of_reach(study: Study) -> list[str]:
    own_machines = ("guest", "xen")
    platforms = [platform for platform in study.sut.platforms if platform not in own_machines]
    if study.machine != "local" or not platforms:
        return []
    asked = [kind.name for kind in KINDS if kind.for_own_machines and _is_asked(study, kind)]
    found = [
        f"knobs.{name} is for guests: {' and '.join(platforms)} share this host's, which is left alone"
        for name in asked
    ]
    if "xen" in study.sut.platforms:
        found.append(
            "native is this host's driver domain, which runs under Xen itself: what Xen takes from "
            "that is in no cost (machine = 'emulated' has a baseline without Xen)"
        )
    return found
