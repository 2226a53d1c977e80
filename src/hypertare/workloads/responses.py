"""Which responses a workload has, and how they come from its records. Pure.

Values of tasks are named in the agent's `values.rs`; a test holds the two together.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from hypertare.protocol.phase import LOAD, Phase, sum_of_known
from hypertare.protocol.records import Record
from hypertare.workloads import guests, packets, stream_rate
from hypertare.workloads.line_share import OF_LINE
from hypertare.workloads.response import Better, OfGuests, Response


def _response(
    name: str, unit: str, better: Better, title: str, of_guests: OfGuests = "sum"
) -> Response:
    return Response(name, unit, better, title, of_guests)


_CPU = (
    _response("machine_cpu", "s", "lower", "CPU time of the whole machine while it ran"),
    _response("outside_cpu", "s", "lower", "CPU time of the platform as its machine sees it"),
    _response("own_cpu", "s", "lower", "CPU time as the guest itself sees it"),
    _response("machine_steal", "s", "lower", "time in which a hypervisor held the machine's CPUs"),
    _response("own_steal", "s", "lower", "time in which the guest had work and waited for a CPU"),
    *guests.OF_CPU,
)

_POLLING = (
    _response(
        "driver_packet_rate", "packets/s", "higher", "packets that the NIC's driver delivered"
    ),
    _response("poll_rate", "polls/s", "lower", "times that the NIC's driver was polled"),
    _response("packets_per_poll", "packets/poll", "higher", "mean packets of a poll", "mean"),
    _response("interrupt_rate", "interrupts/s", "lower", "hardware interrupts of the NIC"),
    _response("softirq_cpu", "share", "lower", "share of one CPU that softirqs took"),
    _response("ksoftirqd_share", "share", "lower", "share of one CPU that ksoftirqd took"),
    _response("drops_ring", "packets", "lower", "packets that found no room in the NIC's ring"),
    _response("drops_backlog", "packets", "lower", "packets that found no room in the backlog"),
    _response(
        "drops_socket", "packets", "lower", "packets that found no room in the socket buffer"
    ),
    _response("drops_other", "packets", "lower", "packets dropped anywhere else on their way in"),
    _response("own_cpu_share", "share", "lower", "share of one CPU as the guest itself sees it"),
    _response("outside_cpu_share", "share", "lower", "share of one CPU as its machine sees it"),
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
    _response("exits", "exits", "lower", "exits to the hypervisor"),
    _response("exit_rate", "exits/s", "lower", "exits to the hypervisor over time"),
    _response("guest_faults", "faults", "lower", "page faults that came to the hypervisor"),
    _response("tlb_flushes", "flushes", "lower", "TLB flushes by the hypervisor"),
    _response("shadow_zapped", "pages", "lower", "the hypervisor's page tables given up"),
    _response("pte_writes", "writes", "lower", "intercepted writes to the guest's page tables"),
    _response(
        "mapped_4k", "pages", "lower", "pages of 4 KB that the guest is mapped by at the end"
    ),
    _response(
        "mapped_2m", "pages", "higher", "pages of 2 MB that the guest is mapped by at the end"
    ),
    *(
        _response(f"exits_{reason}", "exits", "lower", f"exits to the hypervisor: {reason}")
        for reason in dict.fromkeys((*SVM_EXITS, *VMX_EXITS, "other"))
    ),
)
"""Of a guest under KVM, as its host sees it."""

_MEMORY = (
    _response("thp_faults", "faults", "higher", "page faults that got a huge page (THP)"),
    _response("thp_collapsed", "pages", "higher", "huge pages made of small ones by khugepaged"),
    _response("thp_cpu", "s", "lower", "CPU time of khugepaged"),
    _response("host_thp_faults", "faults", "higher", "the same page faults below a guest"),
    _response("host_thp_collapsed", "pages", "higher", "the same huge pages below a guest"),
    _response("host_thp_cpu", "s", "lower", "CPU time of khugepaged below a guest"),
    _response("ksm_saved", "B", "higher", "memory that merging saves at the end (KSM)"),
    _response("ksm_faults", "faults", "lower", "page faults that took a merged page apart"),
    _response("ksm_scans", "scans", "higher", "times that ksmd came round all memory"),
    _response("ksm_cpu", "s", "lower", "CPU time of ksmd"),
)

_HARDWARE = (
    _response("cycles", "cycles", "lower", "cycles of the CPUs under test"),
    _response("instructions", "instructions", "lower", "instructions of the CPUs under test"),
    _response("dtlb_misses", "misses", "lower", "misses of the data TLB"),
    _response("walk_cycles", "cycles", "lower", "cycles with a page walk under way"),
)
"""Of the CPUs' own counters, where there are any; guests included."""

_TRANSLATION = (*_KVM, *_MEMORY, *_HARDWARE)

RESPONSES: dict[str, tuple[Response, ...]] = {
    "command": (
        _response("elapsed", "s", "lower", "elapsed time", "most"),
        _response("user", "s", "lower", "CPU time in user mode"),
        _response("system", "s", "lower", "CPU time in the kernel"),
        _response("minor_faults", "faults", "lower", "minor page faults"),
        _response("major_faults", "faults", "lower", "major page faults"),
        _response("voluntary_switches", "switches", "lower", "voluntary context switches"),
        _response("involuntary_switches", "switches", "lower", "involuntary context switches"),
        _response("peak_memory", "B", "lower", "largest resident set of a process", "most"),
        *_CPU,
        *_TRANSLATION,
    ),
    "stream": (
        _response("goodput", "b/s", "higher", "payload received over time"),
        _response("packet_rate", "packets/s", "higher", "datagrams received over time"),
        _response("sent_rate", "b/s", "higher", "payload sent over time"),
        _response("loss", "share", "lower", "messages that never came back or through", "mean"),
        _response("reordered", "packets", "lower", "datagrams that came out of order"),
        _response("retransmits", "segments", "lower", "TCP segments sent again"),
        _response("tcp_rtt", "s", "lower", "TCP's smoothed round-trip time under load", "mean"),
        _response(
            "cpu_per_gigabyte", "s/GB", "lower", "CPU time of the whole machine per 10^9 bytes"
        ),
        *OF_LINE,
        *guests.OF_STREAMS,
        *_CPU,
        *_POLLING,
    ),
    "ping": (
        _response("rtt_p50", "s", "lower", "median round-trip time", "mean"),
        _response("rtt_mean", "s", "lower", "mean round-trip time", "mean"),
        _response("rtt_p99", "s", "lower", "99th percentile of the round-trip time", "most"),
        _response("rtt_p999", "s", "lower", "99.9th percentile of the round-trip time", "most"),
        _response(
            "rtt_jitter", "s", "lower", "mean change from one round trip to the next", "mean"
        ),
        _response("loss", "share", "lower", "messages that never came back or through", "mean"),
        *_CPU,
    ),
    "burn": (
        _response("work_rate", "loops/s", "higher", "units of work done over time"),
        _response("share", "share", "higher", "CPU share received", "mean"),
        *_CPU,
    ),
    "fork": (
        _response("elapsed", "s", "lower", "elapsed time", "most"),
        _response(
            "fork_rate", "forks/s", "higher", "programs forked, executed and ended over time"
        ),
        _response("user", "s", "lower", "CPU time in user mode"),
        _response("system", "s", "lower", "CPU time in the kernel"),
        _response("minor_faults", "faults", "lower", "minor page faults"),
        *_CPU,
        *_TRANSLATION,
    ),
    "touch": (
        _response("access_rate", "reads/s", "higher", "dependent random reads over time"),
        _response("elapsed", "s", "lower", "elapsed time of the reads", "most"),
        _response("minor_faults", "faults", "lower", "minor page faults during the reads"),
        _response("setup_time", "s", "lower", "time to fill the working set", "most"),
        _response("setup_faults", "faults", "lower", "page faults of filling the working set"),
        _response(
            "huge_share", "share", "higher", "share of the working set in pages of 2 MB", "mean"
        ),
        *_CPU,
        *_TRANSLATION,
    ),
}

_OWN_MACHINE = ("guest", "xen")
"""Platforms whose system under test has a kernel and counters of its own."""
ELAPSED = "elapsed"
WALK_CYCLES, WALK_TIME = "modelled_walk_cycles", "modelled_walk_time"
TOTAL = "estimated_total"

MODELLED: tuple[Response, ...] = (
    _response(WALK_CYCLES, "cycles", "lower", "modelled cycles of translating addresses"),
    _response(WALK_TIME, "s", "lower", "modelled time of translating addresses"),
    _response(TOTAL, "s", "lower", "elapsed time and modelled time of translating addresses"),
)
"""Of workloads whose elapsed time is joined with modelled page walks; see `hypertare.findings.totals`."""

VIRTUAL = " (virtual)"
"""Marks the unit of every number of virtual time, so that nobody takes it for one of the wall clock."""

_VIRTUAL_MEANS = (
    "Virtual time counts the machine's instructions, each as long as any other, so a run repeats "
    "exactly and its figures say how much code the work needs. What it leaves out is what hardware "
    "adds (caches, TLB misses, page walks, CPUs that work at the same time): never set them beside "
    "figures of the wall clock."
)


def meaning(clock: str) -> str:
    """What to say wherever numbers of this clock are shown; nothing of the wall's."""
    return _VIRTUAL_MEANS if clock == "virtual" else ""


def mark_of(clock: str) -> str:
    """What a unit has appended by this clock."""
    return VIRTUAL if clock == "virtual" else ""


def of_clock(response: Response, clock: str) -> Response:
    """The response as a run by this clock has it."""
    return replace(response, unit=response.unit + mark_of(clock))


def of_workload(kind: str, *, walked: bool) -> tuple[Response, ...]:
    """All responses of a workload of this type, modelled ones among them where it is walked."""
    return RESPONSES[kind] + (MODELLED if walked else ())


def has_elapsed(kind: str) -> bool:
    """Whether there is an elapsed time that modelled page walks can be added to."""
    return any(response.name == ELAPSED for response in RESPONSES[kind])


HEADLINE = {
    "command": "elapsed",
    "stream": "goodput",
    "ping": "rtt_p50",
    "burn": "work_rate",
    "fork": "elapsed",
    "touch": "access_rate",
}
"""The response that decides when a workload has been measured precisely enough, and leads a report."""


def measure(
    workload: str, platform: str, nodes: Sequence[str], records: Iterable[Record]
) -> dict[str, float]:
    """Responses of one trial that ended in good order, by name; absent ones could not be had.

    Args:
        workload: the workload's type.
        platform: the platform of the system under test.
        nodes: its nodes' names.
        records: all records of the trial.
    """
    phase = Phase.of(records)
    if phase.guests:
        values = _of_all(workload, platform, nodes, phase)
    else:
        values = _of_one(workload, platform, nodes[0], phase)
    values |= _driver(platform, nodes, phase)
    values["machine_cpu"] = _machine_cpu(platform, phase)
    if platform != "xen":
        values["machine_steal"] = phase.probe("host", "stat", "steal_s")
    if workload in _TRANSLATED:
        values |= _translation(phase, platform, nodes)
    received = phase.total("receive", "received_bytes")
    if received and values["machine_cpu"] is not None:
        values["cpu_per_gigabyte"] = values["machine_cpu"] / (received / 1e9)
    return _known(values)


def of_guests(
    workload: str, platform: str, nodes: Sequence[str], records: Iterable[Record]
) -> tuple[dict[str, float], ...]:
    """The same of each guest where several worked at once, the first one's first; else nothing.

    One that was there to disturb has its CPU time and no more.
    """
    phase = Phase.of(records)
    if not phase.guests:
        return ()
    parts = _parts(workload, platform, nodes, phase)
    due = guests.entitlements(_working(parts, phase), _weights(nodes, phase))
    for guest, share in due.items():
        parts[guest]["entitlement"] = share
    return tuple(parts.get(guest, {}) for guest in range(1, max(phase.guests) + 1))


def why_not(workload: str, records: Iterable[Record]) -> str:
    """Why a trial that ended in good order has not its leading response."""
    phase = Phase.of(records)
    if workload == "stream" and phase.guests and guests.common_of(phase) is None:
        return "its guests' streams never ran all at the same time; give them more time with 'duration'"
    return f"the trial ended without its {HEADLINE[workload]}"


Found = dict[str, float | None]


def _of_one(workload: str, platform: str, node: str, phase: Phase) -> Found:
    """Of a phase that one system under test had for itself, or of one guest's part of it."""
    values: Found = {} if _only_disturbs(phase) else _MEASURES[workload](phase)
    if platform != "native":
        own = "vcpu_s" if _has_driver_group(platform, phase) else "cpu_s"
        values["outside_cpu"] = phase.probe(node, "outside", own)
        if workload == "stream":
            share = phase.rate(node, "outside", values["outside_cpu"])
            values["outside_cpu_share"] = share
    if platform in _OWN_MACHINE:
        values["own_cpu"] = phase.probe(node, "stat", "busy_s")
        values["own_steal"] = phase.probe(node, "stat", "steal_s")
    if workload == "stream" and phase.has_counters_of(node):
        values |= _polling(phase, node)
    return values


def _of_all(workload: str, platform: str, nodes: Sequence[str], phase: Phase) -> Found:
    """Of all guests together."""
    parts = _parts(workload, platform, nodes, phase)
    working = _working(parts, phase)
    values: Found = {**guests.join(working, RESPONSES[workload])}
    if workload == "stream":
        found = guests.common_of(phase)
        values |= {**_stream(phase), "goodput": values.get("goodput")}
        values |= guests.of_streams(working, found)
        if len(nodes) == 1 and phase.has_counters_of(nodes[0]):
            values |= _polling(phase, nodes[0])
    elif workload == "ping":
        values |= guests.round_trips(phase)
    values |= guests.of_cpu(working, _weights(nodes, phase))
    for name in ("outside_cpu", "outside_cpu_share"):
        if any(name in part for part in parts.values()):
            values[name] = _whole([part.get(name) for part in parts.values()])
    if phase.neighbours:
        for name in ("cpu", "cpu_share"):
            loads = [parts[guest].get(f"outside_{name}") for guest in phase.neighbours]
            values[f"neighbours_{name}"] = _whole(loads)
    return values


def _parts(
    workload: str, platform: str, nodes: Sequence[str], phase: Phase
) -> dict[int, dict[str, float]]:
    """By guest; a stream's goodput is over the common interval, where that is not too favourable."""
    parts = {
        guest: _known(_of_one(workload, platform, node, phase.of_guest(guest, node)))
        for guest, node in _node_of(nodes, phase).items()
    }
    if workload == "stream":
        guests.with_common_rates(parts, phase, guests.common_of(phase))
    return parts


def _working(parts: dict[int, dict[str, float]], phase: Phase) -> dict[int, dict[str, float]]:
    return {guest: part for guest, part in parts.items() if guest not in phase.neighbours}


def _node_of(nodes: Sequence[str], phase: Phase) -> dict[int, str]:
    """By guest. A baseline's one node does the work of all; what it used belongs to none of them."""
    if len(nodes) == 1:
        return dict.fromkeys(phase.guests, "")
    return {guest: nodes[guest - 1] for guest in phase.guests}


def _weights(nodes: Sequence[str], phase: Phase) -> dict[int, float]:
    """By guest, of those to which the trial gave one."""
    named = {guest: phase.weights.get(node) for guest, node in _node_of(nodes, phase).items()}
    return {guest: weight for guest, weight in named.items() if weight is not None}


def _only_disturbs(phase: Phase) -> bool:
    return all(task.startswith(LOAD) for task in phase.results) and bool(phase.results)


def _has_driver_group(platform: str, phase: Phase) -> bool:
    """Whether what QEMU does beside its virtual CPUs is a group with a weight of its own."""
    return platform == "guest" and bool(phase.weights)


def _driver(platform: str, nodes: Sequence[str], phase: Phase) -> Found:
    """CPU time of the domain that moves the guests' packets: as the hypervisor counts it or, of guests
    of this host, of all QEMU's threads that are no virtual CPUs, and of vhost.
    """
    if platform == "xen":
        used = phase.probe("host", "outside", "cpu_s")
        return {"driver_cpu": used, "driver_cpu_share": phase.rate("host", "outside", used)}
    if not _has_driver_group(platform, phase):
        return {}
    asked = [node for node in nodes if (node, "outside") in phase.probes]
    parts = {node: _beside_its_cpus(node, phase) for node in asked}
    shares = [phase.rate(node, "outside", part) for node, part in parts.items()]
    return {
        "driver_cpu": _whole(list(parts.values())) if parts else None,
        "driver_cpu_share": _whole(shares) if parts else None,
    }


def _beside_its_cpus(node: str, phase: Phase) -> float | None:
    return _whole([phase.probe(node, "outside", name) for name in ("vmm_s", "vhost_s")])


def _machine_cpu(platform: str, phase: Phase) -> float | None:
    """No kernel sees all of a hypervisor's CPUs: it is the sum of its domains, idle ones too."""
    if platform != "xen":
        return phase.probe("host", "stat", "busy_s")
    if ("host", "outside") not in phase.probes:
        return None
    return _whole([phase.probe(*at, "cpu_s") for at in phase.probes if at[1] == "outside"])


def _sum(phase: Phase, nodes: Iterable[str], probe: str, value: str) -> float | None:
    """Over the nodes that worked, for others are not asked; none if none was."""
    return sum_of_known(phase.probe(node, probe, value) for node in nodes)


def _known(values: Found) -> dict[str, float]:
    return {name: value for name, value in values.items() if value is not None}


def _command(phase: Phase) -> dict[str, float | None]:
    names = {
        "elapsed": "elapsed_s",
        "user": "user_s",
        "system": "system_s",
        "minor_faults": "minor_faults",
        "major_faults": "major_faults",
        "voluntary_switches": "voluntary_switches",
        "involuntary_switches": "involuntary_switches",
        "peak_memory": "peak_memory_bytes",
    }
    return {response: phase.total("command", value) for response, value in names.items()}


def _stream(phase: Phase) -> dict[str, float | None]:
    sent = phase.total("send", "sent_packets")
    received = phase.total("receive", "received_packets")
    of_datagrams = phase.total("receive", "lost_packets") is not None
    flows = max(1, sum(task.startswith("send") for task in phase.results))
    rtt = phase.total("send", "rtt_s")
    return {
        "goodput": stream_rate.goodput(phase),
        "packet_rate": stream_rate.packet_rate(phase) if of_datagrams else None,
        "sent_rate": phase.total("send", "sent_bps"),
        # Sent is counted at the sender, received at the receiver: what is between is lost, wherever.
        "loss": max(0.0, 1 - received / sent)
        if of_datagrams and sent and received is not None
        else None,
        "reordered": phase.total("receive", "reordered_packets") if of_datagrams else None,
        "retransmits": phase.total("send", "retransmits"),
        "tcp_rtt": None if rtt is None else rtt / flows,
    }


def _polling(phase: Phase, node: str) -> dict[str, float | None]:
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


def _drops(phase: Phase, node: str) -> dict[str, float | None]:
    """By where there was no room; what the NIC had no room for waits in a guest's tap, if it has one."""
    places = packets.places(phase, node)
    named = ("ring", "tap", "backlog", "socket")
    others = [count for place, count in places.items() if place not in named]
    return {
        "drops_ring": _whole([places["ring"], places.get("tap", 0.0)]),
        "drops_backlog": places["backlog"],
        "drops_socket": places["socket"],
        "drops_other": _whole(others),
    }


def _whole(parts: Sequence[float | None]) -> float | None:
    """The sum; none where a part is not known, for the rest would pass for the whole."""
    known = [part for part in parts if part is not None]
    return sum(known) if len(known) == len(parts) else None


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


def _ping(phase: Phase) -> dict[str, float | None]:
    values: dict[str, float | None] = {}
    for name in ("p50", "mean", "p99", "p999", "jitter"):
        found = phase.total("request", f"rtt_{name}_ns")
        values[f"rtt_{name}"] = None if found is None else found / 1e9
    requests = phase.total("request", "requests")
    lost = phase.total("request", "lost_packets")
    values["loss"] = lost / requests if requests and lost is not None else None
    return values


def _burn(phase: Phase) -> dict[str, float | None]:
    loops, elapsed = phase.total("burn", "loops"), phase.total("burn", "elapsed_s")
    return {
        "work_rate": loops / elapsed if loops is not None and elapsed else None,
        "share": phase.total("burn", "share"),
    }


def _fork(phase: Phase) -> dict[str, float | None]:
    return {
        "elapsed": phase.total("fork", "elapsed_s"),
        "fork_rate": phase.task_rate("fork", "forks"),
        "user": phase.total("fork", "user_s"),
        "system": phase.total("fork", "system_s"),
        "minor_faults": phase.total("fork", "minor_faults"),
    }


def _touch(phase: Phase) -> dict[str, float | None]:
    memory, huge = phase.total("touch", "memory_bytes"), phase.total("touch", "huge_bytes")
    return {
        "access_rate": phase.task_rate("touch", "accesses"),
        "elapsed": phase.total("touch", "elapsed_s"),
        "minor_faults": phase.total("touch", "minor_faults"),
        "setup_time": phase.total("touch", "setup_s"),
        "setup_faults": phase.total("touch", "setup_faults"),
        "huge_share": huge / memory if huge is not None and memory else None,
    }


_MEASURES = {
    "command": _command,
    "stream": _stream,
    "ping": _ping,
    "burn": _burn,
    "fork": _fork,
    "touch": _touch,
}

_TRANSLATED = ("command", "fork", "touch")
"""Workloads that are asked what translating addresses cost them."""


def _translation(phase: Phase, platform: str, nodes: Sequence[str]) -> dict[str, float | None]:
    """What KVM, both kernels and the CPUs counted of it."""
    host = ("host",)
    values = _hardware(phase) | _thp(phase, nodes if platform == "guest" else host, "thp")
    if platform == "guest":
        values |= _kvm(phase, nodes) | _thp(phase, host, "host_thp") | _ksm(phase)
    return values


def _kvm(phase: Phase, nodes: Sequence[str]) -> dict[str, float | None]:
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


def _exits(phase: Phase, nodes: Sequence[str]) -> dict[str, float | None]:
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


def _thp(phase: Phase, nodes: Sequence[str], prefix: str) -> dict[str, float | None]:
    names = {
        "faults": "thp_fault_alloc",
        "collapsed": "khugepaged_pages_collapsed",
        "cpu": "khugepaged_s",
    }
    return {f"{prefix}_{name}": _sum(phase, nodes, "memory", v) for name, v in names.items()}


def _ksm(phase: Phase) -> dict[str, float | None]:
    names = {
        "saved": "ksm_saved_bytes_level",
        "faults": "cow_ksm",
        "scans": "ksm_full_scans",
        "cpu": "ksmd_s",
    }
    return {f"ksm_{name}": phase.probe("host", "memory", v) for name, v in names.items()}


def _hardware(phase: Phase) -> dict[str, float | None]:
    def counted(*names: str) -> float | None:
        return _whole([phase.probe("host", "hardware", name) for name in names])

    return {
        "cycles": counted("cycles"),
        "instructions": counted("instructions"),
        "dtlb_misses": counted("dtlb_load_misses", "dtlb_store_misses"),
        "walk_cycles": counted("load_walk_cycles", "store_walk_cycles"),
    }
