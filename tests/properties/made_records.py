"""Records of trials of every kind, with everything that responses, reports and accounts look at."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hypertare.protocol.phase import PHASE
from hypertare.protocol.plan import SchedulerWeight
from hypertare.protocol.records import (
    Histogram,
    Interval,
    KnobOutcome,
    Log,
    ProbeValues,
    Record,
    TaskResult,
    TrialBegin,
    TrialEnd,
)
from tests.made_tasks import purpose_of

TRIAL = 3


@dataclass(frozen=True)
class Made:
    """What a trial of a kind of workload on these nodes reported."""

    kind: str
    platform: str
    nodes: tuple[str, ...]
    records: tuple[Record, ...]


_VALUES: dict[str, dict[str, float]] = {
    "command": {
        "elapsed_s": 2.5,
        "user_s": 2.0,
        "system_s": 0.25,
        "minor_faults": 4000.0,
        "major_faults": 2.0,
        "peak_memory_bytes": 2e7,
        "exit_status": 0.0,
    },
    "send": {
        "elapsed_s": 2.0,
        "sent_bps": 1e8,
        "sent_packets": 17000.0,
        "all_packets": 21000.0,
        "sent_bytes": 2.5e7,
        "retransmits": 3.0,
        "rtt_s": 0.0004,
    },
    "receive": {
        "elapsed_s": 1.9,
        "goodput_bps": 9e7,
        "received_bytes": 2.2e7,
        "lost_packets": 120.0,
        "received_packets": 16880.0,
        "all_packets": 20800.0,
        "reordered_packets": 1.0,
    },
    "request": {
        "elapsed_s": 0.5,
        "requests": 9000.0,
        "lost_packets": 1.0,
        "rtt_p50_ns": 41000.0,
        "rtt_mean_ns": 43000.0,
        "rtt_p99_ns": 90000.0,
        "rtt_p999_ns": 2e5,
        "rtt_jitter_ns": 9000.0,
    },
    "burn": {"elapsed_s": 1.0, "used_s": 0.5, "share": 0.5, "loops": 1e6},
    "fork": {"elapsed_s": 1.0, "forks": 300.0, "user_s": 0.1, "system_s": 0.8, "minor_faults": 9e4},
    "touch": {
        "elapsed_s": 1.0,
        "accesses": 1e7,
        "memory_bytes": 1e8,
        "huge_bytes": 5e7,
        "setup_s": 0.1,
        "setup_faults": 25000.0,
        "minor_faults": 3.0,
    },
    "io": {
        "elapsed_s": 1.0,
        "operations": 9000.0,
        "bytes": 36864000.0,
        "user_s": 0.1,
        "system_s": 0.6,
        "switches": 9001.0,
        "read_p50_ns": 50000.0,
        "read_p99_ns": 90000.0,
        "read_p999_ns": 90000.0,
    },
    "life": {
        "start_s": 0.5,
        "vmm_s": 0.1,
        "kernel_s": 0.35,
        "agent_s": 0.05,
        "answer_s": 0.6,
        "memory_bytes": 9e7,
        "save_s": 0.2,
        "saved_bytes": 8e7,
        "restore_s": 0.3,
        "stop_s": 0.1,
    },
    "cut": {
        "blocks": 1024.0,
        "durable_writes": 640.0,
        "lost_blocks": 2.0,
        "newer_blocks": 3.0,
        "torn_blocks": 0.0,
        "restart_s": 4.0,
    },
    "sleep": {
        "elapsed_s": 1.0,
        "wakeups": 9000.0,
        "missed": 2.0,
        "wakeup_p50_ns": 50000.0,
        "wakeup_p99_ns": 90000.0,
        "wakeup_p999_ns": 90000.0,
        "wakeup_max_ns": 90000.0,
    },
}

_PROBES: dict[str, dict[str, float]] = {
    "stat": {"busy_s": 1.5, "user_s": 1.0, "system_s": 0.4, "softirq_s": 0.1, "steal_s": 0.05},
    "outside": {"cpu_s": 1.7, "vcpu_s": 1.5, "vmm_s": 0.1, "vhost_s": 0.1, "datapath_s": 0.0},
    "net_dev": {"eth0.rx_packets": 21000.0, "eth0.tx_packets": 21010.0},
    "napi": {
        "eth0.polls": 900.0,
        "eth0.polled_packets": 20800.0,
        "eth0.interrupts": 400.0,
        "ksoftirqd_s": 0.2,
    },
    "drops": {
        "backlog": 3.0,
        "socket": 120.0,
        "memory": 0.0,
        "no_port": 0.0,
        "checksum": 0.0,
        "ip_receive": 0.0,
        "ip_transmit": 0.0,
        "eth0.ring": 5.0,
        "eth0.receive": 9.0,
        "tap0.transmit": 1.0,
        "tap0.queue": 0.0,
        "eth0.damaged": 0.0,
    },
    "kvm": {
        "exits": 50000.0,
        "halt_exits": 400.0,
        "pf_taken": 900.0,
        "tlb_flush": 20.0,
        "pages_4k_level": 9000.0,
    },
    "kvm_exits": {"exits_hlt": 300.0, "exits_io": 12.0, "exits_npf": 900.0, "exits_other": 1.0},
    "memory": {"thp_fault_alloc": 4.0, "khugepaged_s": 0.01, "ksm_saved_bytes_level": 4096.0},
    "vmm_memory": {"rss_bytes_level": 2e8, "pss_bytes_level": 1e8, "hugetlb_bytes_level": 0.0},
    "datapath": {"kicks": 900.0, "calls": 800.0, "empty_polls": 40.0, "full": 0.0},
    "cpu_modes": {
        "guest_user": 30.0,
        "guest_kernel": 200.0,
        "vcpu_user": 0.0,
        "vcpu_kernel": 90.0,
        "vmm_user": 100.0,
        "vmm_kernel": 250.0,
        "other_user": 12.0,
        "other_kernel": 30.0,
    },
    "schedstat": {"run_s": 1.1, "wait_s": 0.2, "timeslices": 900.0},
    "hardware": {
        "cycles": 1e9,
        "instructions": 2e9,
        "dtlb_load_misses": 1e5,
        "load_walk_cycles": 1e7,
    },
}

_ROLES = {
    "command": ("command",),
    "stream": ("send", "receive"),
    "capture": ("send", "receive"),
    "ping": ("request",),
    "burn": ("burn",),
    "fork": ("fork",),
    "touch": ("touch",),
    "sleep": ("sleep",),
    "io": ("io",),
    "life": ("life",),
    "power-cut": ("cut",),
}

_HISTOGRAM = {"request": "rtt", "sleep": "wakeup", "io": "read"}
"""What a role reports, one of each."""


def _tasks(kind: str, node: str, ending: str) -> list[Record]:
    """Results, and of streams what was reported on the way."""
    made: list[Record] = []
    for role in _ROLES[kind]:
        where = {"node": node, "trial": TRIAL, "phase": PHASE, "task": f"{role}{ending}"}
        where["purpose"] = purpose_of(f"{role}{ending}")
        for step in range(3 if role == "receive" else 0):
            values = {"goodput_bps": 9e7, "received_bytes": 7e6}
            times = {"begin_s": step * 0.5, "end_s": step * 0.5 + 0.5, "heard_s": 10 + step * 0.5}
            made.append(Interval(**where, **times, values=values))
        histogram = Histogram(unit="ns", buckets=((40000, 5000), (50000, 3000), (90000, 1000)))
        found = {_HISTOGRAM[role]: histogram} if role in _HISTOGRAM else {}
        text = {"stdout": "done\n"} if role == "command" else {}
        made.append(TaskResult(**where, values=_VALUES[role], histograms=found, text=text))
    return made


def _probes(nodes: Sequence[str]) -> list[Record]:
    polls = {"eth0.packets_per_poll": Histogram(unit="packets", buckets=((0, 3), (8, 90)))}
    return [
        ProbeValues(
            node=node,
            trial=TRIAL,
            phase=PHASE,
            probe=probe,
            elapsed_s=2.0,
            values=values,
            histograms=polls if probe == "napi" else {},
        )
        for node in nodes
        for probe, values in _PROBES.items()
    ]


def _of(kind: str, platform: str, nodes: tuple[str, ...]) -> Made:
    records: list[Record] = [TrialBegin(trial=TRIAL, t_s=1.0)]
    for number, node in enumerate(nodes, start=1):
        if len(nodes) > 1:
            weight = SchedulerWeight(weight=256, guest=node)
            records.append(KnobOutcome(node="host", trial=TRIAL, knob=weight, action="applied"))
        records += _tasks(kind, node, f".{number}" if len(nodes) > 1 else "")
    records += _probes(dict.fromkeys(("host", "peer", *nodes)))
    records.append(Log(node=nodes[0], level="warning", text="a knob could not be read"))
    records.append(TrialEnd(trial=TRIAL, t_s=4.0, elapsed_s=3.0))
    return Made(kind, platform, nodes, tuple(records))


MADE = tuple(
    _of(kind, platform, nodes)
    for kind in _ROLES
    for platform, nodes in (
        ("native", ("host",)),
        ("guest", ("guest1",)),
        ("xen", ("xen1-1", "xen1-2", "xen1-3")),
        ("guest", ("guest1-1", "guest1-2")),
    )
)
