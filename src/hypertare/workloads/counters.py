"""What counters of nodes and of the machine tell beside the tasks: responses of many workloads. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from hypertare.protocol.phase import Phase, sum_of_known
from hypertare.protocol.records import Record
from hypertare.workloads import guests, packets
from hypertare.workloads.response import Found, Response, whole

CPU = (
    Response("machine_cpu", "s", "lower", "CPU time of the whole machine while it ran"),
    Response("outside_cpu", "s", "lower", "CPU time of the platform as its machine sees it"),
    Response("own_cpu", "s", "lower", "CPU time as the guest itself sees it"),
    Response("machine_steal", "s", "lower", "time in which a hypervisor held the machine's CPUs"),
    Response("own_steal", "s", "lower", "time in which the guest had work and waited for a CPU"),
    *guests.OF_CPU,
)

POLLING = (
    Response(
        "driver_packet_rate", "packets/s", "higher", "packets that the NIC's driver delivered"
    ),
    Response("poll_rate", "polls/s", "lower", "times that the NIC's driver was polled"),
    Response("packets_per_poll", "packets/poll", "higher", "mean packets of a poll", "mean"),
    Response("interrupt_rate", "interrupts/s", "lower", "hardware interrupts of the NIC"),
    Response("softirq_cpu", "share", "lower", "share of one CPU that softirqs took"),
    Response("ksoftirqd_share", "share", "lower", "share of one CPU that ksoftirqd took"),
    Response("drops_ring", "packets", "lower", "packets that found no room in the NIC's ring"),
    Response("drops_backlog", "packets", "lower", "packets that found no room in the backlog"),
    Response("drops_socket", "packets", "lower", "packets that found no room in the socket buffer"),
    Response("drops_other", "packets", "lower", "packets dropped anywhere else on their way in"),
    Response("own_cpu_share", "share", "lower", "share of one CPU as the guest itself sees it"),
    Response("outside_cpu_share", "share", "lower", "share of one CPU as its machine sees it"),
)
"""Of the system under test where it is a whole machine: a guest, or an emulated machine. Rates and
shares are over the whole phase, with what a stream omits and its end."""

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

_KVM = (
    Response("exits", "exits", "lower", "exits to the hypervisor"),
    Response("exit_rate", "exits/s", "lower", "exits to the hypervisor over time"),
    Response("guest_faults", "faults", "lower", "page faults that came to the hypervisor"),
    Response("tlb_flushes", "flushes", "lower", "TLB flushes by the hypervisor"),
    Response("shadow_zapped", "pages", "lower", "the hypervisor's page tables given up"),
    Response("pte_writes", "writes", "lower", "intercepted writes to the guest's page tables"),
    Response("mapped_4k", "pages", "lower", "pages of 4 KB that the guest is mapped by at the end"),
    Response(
        "mapped_2m", "pages", "higher", "pages of 2 MB that the guest is mapped by at the end"
    ),
    *(
        Response(f"exits_{reason}", "exits", "lower", f"exits to the hypervisor: {reason}")
        for reason in dict.fromkeys((*SVM_EXITS, *VMX_EXITS, "other"))
    ),
)
"""Of a guest under KVM, as its host sees it."""

_MEMORY = (
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

_HARDWARE = (
    Response("cycles", "cycles", "lower", "cycles of the CPUs under test"),
    Response("instructions", "instructions", "lower", "instructions of the CPUs under test"),
    Response("dtlb_misses", "misses", "lower", "misses of the data TLB"),
    Response("walk_cycles", "cycles", "lower", "cycles with a page walk under way"),
)
"""Of the CPUs' own counters, where there are any; guests included."""

TRANSLATION = (*_KVM, *_MEMORY, *_HARDWARE)


def has_driver_group(platform: str, phase: Phase) -> bool:
    """Whether what QEMU does beside its virtual CPUs is a group with a weight of its own."""
    return platform == "guest" and bool(phase.weights)


def driver(platform: str, nodes: Sequence[str], phase: Phase) -> Found:
    """CPU time of the domain that moves the guests' packets: as the hypervisor counts it or, of guests
    of this host, of all QEMU's threads that are no virtual CPUs, and of vhost.
    """
    if platform == "xen":
        used = phase.probe("host", "outside", "cpu_s")
        return {"driver_cpu": used, "driver_cpu_share": phase.rate("host", "outside", used)}
    if not has_driver_group(platform, phase):
        return {}
    asked = [node for node in nodes if (node, "outside") in phase.probes]
    parts = {node: _beside_its_cpus(node, phase) for node in asked}
    shares = [phase.rate(node, "outside", part) for node, part in parts.items()]
    return {
        "driver_cpu": whole(list(parts.values())) if parts else None,
        "driver_cpu_share": whole(shares) if parts else None,
    }


def _beside_its_cpus(node: str, phase: Phase) -> float | None:
    return whole([phase.probe(node, "outside", name) for name in ("vmm_s", "vhost_s")])


def machine_cpu(platform: str, phase: Phase) -> float | None:
    """No kernel sees all of a hypervisor's CPUs: it is the sum of its domains, idle ones too."""
    if platform != "xen":
        return phase.probe("host", "stat", "busy_s")
    if ("host", "outside") not in phase.probes:
        return None
    return whole([phase.probe(*at, "cpu_s") for at in phase.probes if at[1] == "outside"])


def polling(phase: Phase, node: str) -> Found:
    """How the node took packets from its NIC, and where some were dropped."""
    polls = phase.sum_over_interfaces(node, "napi", "polls")
    packets = phase.sum_over_interfaces(node, "napi", "polled_packets")
    interrupts = phase.sum_over_interfaces(node, "napi", "interrupts")
    ksoftirqd = phase.probe(node, "napi", "ksoftirqd_s")
    return {
        "driver_packet_rate": phase.rate(node, "napi", packets),
        "poll_rate": phase.rate(node, "napi", polls),
        "packets_per_poll": packets / polls if packets is not None and polls else None,
        "interrupt_rate": phase.rate(node, "napi", interrupts),
        "softirq_cpu": phase.rate(node, "stat", phase.probe(node, "stat", "softirq_s")),
        "ksoftirqd_share": phase.rate(node, "napi", ksoftirqd),
        **_drops(phase, node),
        "own_cpu_share": phase.rate(node, "stat", phase.probe(node, "stat", "busy_s")),
    }


def _drops(phase: Phase, node: str) -> Found:
    """By where there was no room; what the NIC had no room for waits in a guest's tap, if it has one."""
    places = packets.places(phase, node)
    named = ("ring", "tap", "backlog", "socket")
    others = [count for place, count in places.items() if place not in named]
    return {
        "drops_ring": whole([places["ring"], places.get("tap", 0.0)]),
        "drops_backlog": places["backlog"],
        "drops_socket": places["socket"],
        "drops_other": whole(others),
    }


def histogram(records: Iterable[Record], node: str) -> dict[int, int]:
    """Polls by the packets that they found, of all interfaces of a node in the measured phase.

    Empty where they were not counted.
    """
    reading = Phase.of(records).probes.get((node, "napi"))
    polls: dict[int, int] = {}
    for name, found in (reading.histograms if reading else {}).items():
        if name.endswith(".packets_per_poll"):
            for packets, count in found.buckets:
                polls[packets] = polls.get(packets, 0) + count
    return dict(sorted(polls.items()))


def translation(phase: Phase, platform: str, nodes: Sequence[str]) -> Found:
    """What KVM, both kernels and the CPUs counted of it."""
    host = ("host",)
    values = _hardware(phase) | _thp(phase, nodes if platform == "guest" else host, "thp")
    if platform == "guest":
        values |= _kvm(phase, nodes) | _thp(phase, host, "host_thp") | _ksm(phase)
    return values


def _kvm(phase: Phase, nodes: Sequence[str]) -> Found:
    names = {
        "exits": "exits",
        "guest_faults": "pf_taken",
        "tlb_flushes": "tlb_flush",
        "shadow_zapped": "mmu_shadow_zapped",
        "pte_writes": "mmu_pte_write",
        "mapped_4k": "pages_4k_level",
        "mapped_2m": "pages_2m_level",
    }
    values = {name: _sum(phase, nodes, "kvm", value) for name, value in names.items()}
    values["exit_rate"] = phase.rate(nodes[0], "kvm", values["exits"])
    return values | _exits(phase, nodes)


def _exits(phase: Phase, nodes: Sequence[str]) -> Found:
    """By reason. What was not met while reasons were counted is 0."""
    counted = [values for node in nodes if (values := phase.values(node, "kvm_exits")) is not None]
    if len(counted) < len(nodes):
        return {}
    by_intel = {f"exits_{reason}" for reason in set(VMX_EXITS) - set(SVM_EXITS)}
    intel = any(name in by_intel for values in counted for name in values)
    found = {f"exits_{reason}": 0.0 for reason in (*(VMX_EXITS if intel else SVM_EXITS), "other")}
    for name, count in (item for values in counted for item in values.items()):
        if name.startswith("exits_"):
            found[name if name in found else "exits_other"] += count
    return dict(found)


def _thp(phase: Phase, nodes: Sequence[str], prefix: str) -> Found:
    names = {
        "faults": "thp_fault_alloc",
        "collapsed": "khugepaged_pages_collapsed",
        "cpu": "khugepaged_s",
    }
    return {f"{prefix}_{name}": _sum(phase, nodes, "memory", v) for name, v in names.items()}


def _ksm(phase: Phase) -> Found:
    names = {
        "saved": "ksm_saved_bytes_level",
        "faults": "cow_ksm",
        "scans": "ksm_full_scans",
        "cpu": "ksmd_s",
    }
    return {f"ksm_{name}": phase.probe("host", "memory", v) for name, v in names.items()}


def _hardware(phase: Phase) -> Found:
    def counted(*names: str) -> float | None:
        return whole([phase.probe("host", "hardware", name) for name in names])

    return {
        "cycles": counted("cycles"),
        "instructions": counted("instructions"),
        "dtlb_misses": counted("dtlb_load_misses", "dtlb_store_misses"),
        "walk_cycles": counted("load_walk_cycles", "store_walk_cycles"),
    }


def _sum(phase: Phase, nodes: Iterable[str], probe: str, value: str) -> float | None:
    """Over the nodes that worked, for others are not asked; none if none was."""
    return sum_of_known(phase.probe(node, probe, value) for node in nodes)
