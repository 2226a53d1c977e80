"""What probes report beside a workload's tasks: CPU time of any, and what some kinds are asked. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from hypertare.base.response import Found
from hypertare.platforms.registry import find
from hypertare.probes import registry
from hypertare.probes.outside import OUTSIDE
from hypertare.probes.stat import STAT
from hypertare.protocol.phase import Phase
from hypertare.workloads import guests

MACHINE_CPU = (STAT.machine_cpu, STAT.machine_steal)

CPU = (
    STAT.machine_cpu,
    OUTSIDE.cpu,
    STAT.own_cpu,
    STAT.machine_steal,
    STAT.own_steal,
    *guests.OF_CPU,
)

POLLING = (*registry.responses("polling"), STAT.own_share, OUTSIDE.share)
"""Of the system under test where it is a whole machine: a guest, or an emulated machine. Rates and
shares are over the whole phase, with what a stream omits and its end."""

TRANSLATION = registry.responses("translation")


def machine_cpu(platform: str, phase: Phase) -> float | None:
    """No kernel sees all of a hypervisor's CPUs: it is the sum of its domains, idle ones too."""
    return OUTSIDE.all_s(phase) if find(platform).under_hypervisor else STAT.busy_s(phase)


def polling(phase: Phase, platform: str, node: str) -> Found:
    """How the node took packets from its NIC, and where some were dropped."""
    found = registry.measure("polling", phase, platform, (node,))
    return found | {STAT.own_share.name: STAT.busy_share(phase, node)}


def translation(phase: Phase, platform: str, nodes: Sequence[str]) -> Found:
    """What KVM, both kernels and the CPUs counted of it."""
    return registry.measure("translation", phase, platform, nodes)
