"""`vmm_memory`: what a guest takes of its host's memory, as the resident set of its VMM."""

from __future__ import annotations

from collections.abc import Sequence

from hypertare.base.variables import Found, Response, whole
from hypertare.platforms.registry import find
from hypertare.probes.probe import ProbeKind
from hypertare.protocol.phase import Phase


class VmmMemory(ProbeKind):
    name = "vmm_memory"
    places = ("outside",)
    topic = "translation"
    responses = (
        Response("vmm_resident", "B", "lower", "resident memory of the VMM at the end"),
        Response(
            "vmm_proportional",
            "B",
            "lower",
            "the same with each shared page divided among its users",
        ),
    )
    is_optional = True

    def measure(self, phase: Phase, platform: str, nodes: Sequence[str]) -> Found:
        """Pages of hugetlb are in no resident set, but the guest has them."""
        if not find(platform).uses_accelerator:
            return {}
        names = {"resident": "rss_bytes_level", "proportional": "pss_bytes_level"}
        huge = self.total(phase, nodes, "hugetlb_bytes_level")
        return {
            f"vmm_{name}": whole([self.total(phase, nodes, value), huge])
            for name, value in names.items()
        }


VMM_MEMORY = VmmMemory()
