"""`hardware`: the CPUs' own counters, where there are any; guests included."""

from __future__ import annotations

from collections.abc import Sequence

from hypertare.base.variables import Found, Response, whole
from hypertare.probes.probe import HOST, ProbeKind
from hypertare.protocol.phase import Phase


class Hardware(ProbeKind):
    name = "hardware"
    places = ("processor",)
    topic = "translation"
    responses = (
        Response("cycles", "cycles", "lower", "cycles of the CPUs under test"),
        Response("instructions", "instructions", "lower", "instructions of the CPUs under test"),
        Response("dtlb_misses", "misses", "lower", "misses of the data TLB"),
        Response("walk_cycles", "cycles", "lower", "cycles with a page walk under way"),
    )
    is_optional = True

    def measure(self, phase: Phase, platform: str, nodes: Sequence[str]) -> Found:
        return {
            "cycles": self._counted(phase, "cycles"),
            "instructions": self._counted(phase, "instructions"),
            "dtlb_misses": self._counted(phase, "dtlb_load_misses", "dtlb_store_misses"),
            "walk_cycles": self._counted(phase, "load_walk_cycles", "store_walk_cycles"),
        }

    def _counted(self, phase: Phase, *names: str) -> float | None:
        return whole([phase.probe(HOST, self.name, name) for name in names])


HARDWARE = Hardware()
