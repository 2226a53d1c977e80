"""`schedstat`: how long tasks ran on a machine's CPUs, exactly."""

from __future__ import annotations

from hypertare.probes.probe import HOST, ProbeKind
from hypertare.protocol.phase import Phase


class Schedstat(ProbeKind):
    name = "schedstat"
    places = ("host",)
    is_optional = True

    def run_s(self, phase: Phase) -> float | None:
        """On all CPUs of the machine; without interrupts that came while one was idle."""
        return phase.probe(HOST, self.name, "run_s")


SCHEDSTAT = Schedstat()
