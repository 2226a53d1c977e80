"""`memory` and `vmstat`: huge pages, merged pages and page faults, as a kernel counts them."""

from __future__ import annotations

from collections.abc import Sequence

from hypertare.base.variables import Found, Response
from hypertare.platforms.registry import find
from hypertare.probes.probe import HOST, ProbeKind
from hypertare.protocol.phase import Phase


class Memory(ProbeKind):
    name = "memory"
    places = ("kernel",)
    topic = "translation"
    responses = (
        Response("thp_faults", "faults", "higher", "page faults that got a huge page (THP)"),
        Response("thp_collapsed", "pages", "higher", "huge pages made of small ones by khugepaged"),
        Response("thp_cpu", "s", "lower", "CPU time of khugepaged"),
        Response("host_thp_faults", "faults", "higher", "the same page faults below a guest"),
        Response("host_thp_collapsed", "pages", "higher", "the same huge pages below a guest"),
        Response("host_thp_cpu", "s", "lower", "CPU time of khugepaged below a guest"),
        Response("ksm_saved", "B", "higher", "memory that merging saves at the end (KSM)"),
        Response("ksm_faults", "faults", "lower", "page faults that took a merged page apart"),
        Response("ksm_scans", "scans", "higher", "times that ksmd came round all memory"),
        Response("ksm_cpu", "s", "lower", "CPU time of ksmd"),
    )
    is_optional = True

    def measure(self, phase: Phase, platform: str, nodes: Sequence[str]) -> Found:
        """Of the kernel that the work runs on, and of the machine below a guest."""
        if not find(platform).is_backed_by_host:
            return self._thp(phase, (HOST,), "thp")
        merging = {
            "saved": "ksm_saved_bytes_level",
            "faults": "cow_ksm",
            "scans": "ksm_full_scans",
            "cpu": "ksmd_s",
        }
        return {
            **self._thp(phase, nodes, "thp"),
            **self._thp(phase, (HOST,), "host_thp"),
            **{f"ksm_{name}": phase.probe(HOST, self.name, v) for name, v in merging.items()},
        }

    def _thp(self, phase: Phase, nodes: Sequence[str], prefix: str) -> Found:
        names = {
            "faults": "thp_fault_alloc",
            "collapsed": "khugepaged_pages_collapsed",
            "cpu": "khugepaged_s",
        }
        return {f"{prefix}_{name}": self.total(phase, nodes, v) for name, v in names.items()}


MEMORY = Memory()


class Vmstat(ProbeKind):
    """Optional: it is a value for each of some 100 names. Workloads make responses of it."""

    name = "vmstat"
    places = ("machine",)
    is_optional = True


VMSTAT = Vmstat()
