"""Every probe that trials ask for: a new one is entered here, and among `ChosenProbe` if it is optional."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from hypertare.base.variables import Found, Response
from hypertare.probes.conditions import CONDITIONS
from hypertare.probes.cpu_modes import CPU_MODES
from hypertare.probes.cpu_time import INTERRUPTS, SCHEDSTAT, SOFTIRQS, STAT
from hypertare.probes.datapath import DATAPATH
from hypertare.probes.drops import DROPS
from hypertare.probes.hardware import HARDWARE
from hypertare.probes.kvm import KVM
from hypertare.probes.kvm_exits import KVM_EXITS
from hypertare.probes.memory import MEMORY, VMSTAT
from hypertare.probes.napi import NAPI, POLLS_TRACED
from hypertare.probes.net import NET_DEV, NET_SNMP
from hypertare.probes.outside import OUTSIDE
from hypertare.probes.probe import ProbeKind, Topic
from hypertare.probes.vmm_memory import VMM_MEMORY
from hypertare.protocol.phase import Phase

KINDS: tuple[ProbeKind, ...] = (
    OUTSIDE,
    STAT,
    SOFTIRQS,
    INTERRUPTS,
    NET_DEV,
    NET_SNMP,
    NAPI,
    POLLS_TRACED,
    DROPS,
    KVM,
    KVM_EXITS,
    MEMORY,
    VMSTAT,
    VMM_MEMORY,
    DATAPATH,
    HARDWARE,
    CPU_MODES,
    SCHEDSTAT,
    CONDITIONS,
)
"""In the order in which a node is asked."""

ChosenProbe = Literal[
    "napi",
    "drops",
    "kvm",
    "kvm_exits",
    "memory",
    "vmstat",
    "vmm_memory",
    "hardware",
    "cpu_modes",
    "schedstat",
]
"""Probes that a study may have or do without; the others are always read."""

USUAL: tuple[ChosenProbe, ...] = ("napi", "drops", "kvm")
"""Those that a study has if it says nothing."""


def responses(topic: Topic) -> tuple[Response, ...]:
    """Returns the responses of all probes of a topic."""
    return tuple(response for kind in KINDS if kind.topic == topic for response in kind.responses)


def measure(topic: Topic, phase: Phase, platform: str, nodes: Sequence[str]) -> Found:
    """Returns the values of all responses of a topic. For the arguments see `ProbeKind.measure`."""
    found: Found = {}
    for kind in KINDS:
        if kind.topic == topic:
            found |= kind.measure(phase, platform, nodes)
    return found
