"""`vmstat`: what a kernel's memory went through, by its own names: faults, swapping, reclaim."""

from __future__ import annotations

from hypertare.probes.probe import ProbeKind
from hypertare.protocol.phase import Phase


class Vmstat(ProbeKind):
    """Optional: it is a value for each of some 100 names. Workloads make responses of it."""

    name = "vmstat"
    places = ("machine",)
    is_optional = True

    def faults(self, phase: Phase, node: str) -> float | None:
        """Page faults of a node, those that needed no disk too."""
        return phase.probe(node, self.name, "pgfault")


VMSTAT = Vmstat()
