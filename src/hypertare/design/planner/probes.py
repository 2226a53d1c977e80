"""What is read in a trial, and where."""

from __future__ import annotations

from collections.abc import Sequence

from hypertare.design import routers
from hypertare.design.design import Plot, Variant, numbered
from hypertare.design.planner.addresses import HOST, PEER
from hypertare.design.planner.pairs import nodes_of
from hypertare.design.planner.surroundings import Surroundings
from hypertare.protocol import plan
from hypertare.study import Study
from hypertare.workloads.pair import Pair


def probes_of(
    study: Study,
    variant: Variant,
    plot: Plot,
    working: Sequence[Pair],
    own_machine: bool,
    on: Surroundings,
) -> list[plan.ProbeRequest]:
    """All that is read; `own_machine`: whether what is under test is no part of this host."""
    nodes = nodes_of(working)
    outside = [node for node in nodes if node != HOST]
    if variant.platform == "xen":
        outside += _domains(study, variant, plot)
    work = [plan.ProbeRequest(node=node, probe="outside") for node in outside]
    work += _work_probes(study, variant, working, nodes if own_machine else ())
    return list(dict.fromkeys([*work, *_memory_probes(study, variant, nodes, on)]))


def _domains(study: Study, variant: Variant, plot: Plot) -> list[str]:
    """All of a bench under Xen, those that have nothing to do too: its CPU time is theirs together."""
    found = [HOST, *(n for v in plot.variants if v.platform == "xen" for n in v.nodes)]
    if study.needs_network and study.bench.peers == "guest":
        count = variant.guests
        sides = [side.end for side in routers.all_sides(count)]
        found += sides if study.routed else numbered(PEER, count)
    return found


def _work_probes(
    study: Study, variant: Variant, working: Sequence[Pair], machines: Sequence[str]
) -> list[plan.ProbeRequest]:
    """Of the CPU and the network; `machines` are the nodes that are machines of their own."""
    wanted = [plan.ProbeRequest(node=HOST, probe=probe) for probe in ("stat", "softirqs")]
    own: tuple[plan.ProbeName, ...] = ("stat", "softirqs", "interrupts", "net_dev", "net_snmp")
    polling = _chosen(study, "napi", "drops") if study.needs_network else ()
    wanted += [
        plan.ProbeRequest(node=node, probe=probe) for node in machines for probe in own + polling
    ]
    if machines and "drops" in polling:
        peers = [node for pair in working for node in pair.others]
        # A peer may drop a packet, and so may the machine that a guest's frames pass through.
        way = [*peers, HOST] if variant.platform in ("guest", "xen") else peers
        wanted += [plan.ProbeRequest(node=node, probe="drops") for node in way]
        wanted += [plan.ProbeRequest(node=peer, probe="net_dev") for peer in peers]
    return wanted


def _memory_probes(
    study: Study, variant: Variant, nodes: Sequence[str], on: Surroundings
) -> list[plan.ProbeRequest]:
    """Of memory and its translation: of the machine, of its guests and as KVM sees them."""
    guests = nodes if variant.platform == "guest" else ()
    found = [(node, probe) for probe in _chosen(study, "memory") for node in (HOST, *guests)]
    found += [(HOST, probe) for probe in _chosen(study, "hardware")]
    if _under_kvm(study, on):
        counted = _chosen(study, "kvm", "kvm_exits")
        found += [(guest, probe) for guest in guests for probe in counted]
    return [plan.ProbeRequest(node=node, probe=probe) for node, probe in found]


def _under_kvm(study: Study, on: Surroundings) -> bool:
    """Whether guests are KVM's; those of an emulated machine always are."""
    accelerator = on.accelerator if study.sut.accelerator == "auto" else study.sut.accelerator
    return study.machine == "emulated" or accelerator == "kvm"


def _chosen(study: Study, *names: plan.ProbeName) -> tuple[plan.ProbeName, ...]:
    return tuple(name for name in names if name in study.probes)
