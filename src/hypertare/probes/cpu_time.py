"""`stat`, `softirqs`, `interrupts`, `schedstat`: how a kernel's CPUs spent their time."""

from __future__ import annotations

import re

from hypertare.base.variables import Response
from hypertare.probes.probe import HOST, ProbeKind
from hypertare.protocol.phase import Phase


class Stat(ProbeKind):
    name = "stat"
    places = ("host", "machine")

    machine_cpu = Response(
        "machine_cpu", "s", "lower", "CPU time of the whole machine while it ran"
    )
    machine_steal = Response(
        "machine_steal", "s", "lower", "time in which a hypervisor held the machine's CPUs"
    )
    own_cpu = Response("own_cpu", "s", "lower", "CPU time as the guest itself sees it")
    own_steal = Response(
        "own_steal", "s", "lower", "time in which the guest had work and waited for a CPU"
    )
    own_share = Response(
        "own_cpu_share", "share", "lower", "share of one CPU as the guest itself sees it"
    )

    def busy_s(self, phase: Phase, node: str = HOST) -> float | None:
        """CPU time of a node."""
        return phase.probe(node, self.name, "busy_s")

    def steal_s(self, phase: Phase, node: str = HOST) -> float | None:
        """Time for which a node was kept from a CPU."""
        return phase.probe(node, self.name, "steal_s")


STAT = Stat()


class Softirqs(ProbeKind):
    name = "softirqs"
    places = ("host", "machine")


SOFTIRQS = Softirqs()


_OF_ARCHITECTURE = re.compile(r"[A-Z]{3}")
"""Timers, messages between CPUs and the like: arch/x86/kernel/irq.c, `arch_show_interrupts`."""


class Interrupts(ProbeKind):
    name = "interrupts"
    places = ("machine",)

    def of_devices(self, phase: Phase, node: str) -> float | None:
        """Those that a driver has given a name."""
        counted = phase.values(node, self.name)
        if counted is None:
            return None
        return sum(count for name, count in counted.items() if not _OF_ARCHITECTURE.fullmatch(name))


INTERRUPTS = Interrupts()


class Schedstat(ProbeKind):
    name = "schedstat"
    places = ("host",)
    is_optional = True


SCHEDSTAT = Schedstat()
