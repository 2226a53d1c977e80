"""`stat`: how a kernel's CPUs spent their time."""

from __future__ import annotations

from hypertare.base.response import Response
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
