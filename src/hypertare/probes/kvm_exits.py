"""`kvm_exits`: why a guest exits to its hypervisor, as KVM counts it when it is asked to."""

from __future__ import annotations

from collections.abc import Sequence

from hypertare.base.variables import Found, Response
from hypertare.platforms.registry import find
from hypertare.probes.probe import ProbeKind
from hypertare.protocol.phase import Phase

SVM_EXITS = (
    *("npf", "pf_excp", "interrupt", "vintr", "msr", "io", "cpuid", "hlt", "invlpg", "hypercall"),
    *("read_cr3", "write_cr3", "pause"),
)
VMX_EXITS = (
    *("ept_violation", "ept_misconfig", "exception_nmi", "external_interrupt", "interrupt_window"),
    *("msr_read", "msr_write", "io_instruction", "cpuid", "hlt", "invlpg", "vmcall", "cr_access"),
    *("apic_access", "apic_write", "eoi_induced", "preemption_timer", "pause_instruction"),
)
"""Why a guest exits to its hypervisor on AMD's and on Intel's processors, by the kernel's names
(asm/svm.h, asm/vmx.h): those with a response of their own. All others are `exits_other`."""

_WRITES, _RESERVED = 1 << 1, 1 << 3
"""Bits of a page fault's error code. KVM marks pages with device registers by a reserved bit."""


class KvmExits(ProbeKind):
    name = "kvm_exits"
    places = ("guest",)
    topic = "translation"
    responses = tuple(
        Response(f"exits_{reason}", "exits", "lower", f"exits to the hypervisor: {reason}")
        for reason in dict.fromkeys((*SVM_EXITS, *VMX_EXITS, "other"))
    )
    is_optional = True

    def measure(self, phase: Phase, platform: str, nodes: Sequence[str]) -> Found:
        """Returns the exits by reason; a reason that did not occur is 0. Empty unless all guests were
        counted.
        """
        counted = [
            values for node in nodes if (values := phase.values(node, self.name)) is not None
        ]
        if not find(platform).is_counted_by_kvm or len(counted) < len(nodes):
            return {}
        reasons = VMX_EXITS if _are_intels(counted) else SVM_EXITS
        found = {f"exits_{reason}": 0.0 for reason in (*reasons, "other")}
        for name, count in (item for values in counted for item in values.items()):
            if name.startswith("exits_"):
                found[name if name in found else "exits_other"] += count
        return dict(found)

    def register_writes(self, phase: Phase, node: str) -> float | None:
        """Returns a guest's writes to device registers in memory, its notifications included.

        They are counted by page faults, as AMD's processors report them. Returns None on Intel's
        processors, which report misconfigured tables.
        """
        reading = phase.probes.get((node, self.name))
        faults = None if reading is None else reading.histograms.get("page_faults")
        if reading is None or faults is None or _are_intels([reading.values]):
            return None
        asked = _WRITES | _RESERVED
        return sum(count for code, count in faults.buckets if code & asked == asked)


def _are_intels(counted: Sequence[dict[str, float]]) -> bool:
    """Whether any of these is a reason that only Intel's processors have."""
    by_intel = {f"exits_{reason}" for reason in set(VMX_EXITS) - set(SVM_EXITS)}
    return any(name in by_intel for values in counted for name in values)


KVM_EXITS = KvmExits()
