"""`kvm`: what KVM counts of a guest in any case."""

from __future__ import annotations

from collections.abc import Sequence

from hypertare.base.variables import Found, Response
from hypertare.platforms.registry import find
from hypertare.probes.probe import ProbeKind
from hypertare.protocol.phase import Phase


class Kvm(ProbeKind):
    name = "kvm"
    places = ("guest",)
    topic = "translation"
    responses = (
        Response("exits", "exits", "lower", "exits to the hypervisor"),
        Response("exit_rate", "exits/s", "lower", "exits to the hypervisor over time"),
        Response("guest_faults", "faults", "lower", "page faults that came to the hypervisor"),
        Response("tlb_flushes", "flushes", "lower", "TLB flushes by the hypervisor"),
        Response("shadow_zapped", "pages", "lower", "the hypervisor's page tables given up"),
        Response("pte_writes", "writes", "lower", "intercepted writes to the guest's page tables"),
        Response(
            "mapped_4k", "pages", "lower", "pages of 4 KB that the guest is mapped by at the end"
        ),
        Response(
            "mapped_2m", "pages", "higher", "pages of 2 MB that the guest is mapped by at the end"
        ),
    )
    is_optional = True

    def measure(self, phase: Phase, platform: str, nodes: Sequence[str]) -> Found:
        if not find(platform).is_counted_by_kvm:
            return {}
        names = {
            "exits": "exits",
            "guest_faults": "pf_taken",
            "tlb_flushes": "tlb_flush",
            "shadow_zapped": "mmu_shadow_zapped",
            "pte_writes": "mmu_pte_write",
            "mapped_4k": "pages_4k_level",
            "mapped_2m": "pages_2m_level",
        }
        values = {name: self.total(phase, nodes, value) for name, value in names.items()}
        values["exit_rate"] = phase.rate(nodes[0], self.name, values["exits"])
        return values


KVM = Kvm()
