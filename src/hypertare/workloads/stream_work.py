"""What a stream costs the node under test beside CPU time: switches, faults, calls, and what a segment
carries. Pure.

Counters are of the whole phase, and so is what is set against them: payload with what is omitted. Those
of a kernel are of all that runs on it: a machine whose peers are its own processes has theirs, too.
"""

from __future__ import annotations

from hypertare.base.variables import Found, Response
from hypertare.probes.cpu_time import STAT
from hypertare.probes.memory import VMSTAT
from hypertare.probes.net import NET_SNMP
from hypertare.protocol.phase import Phase, sum_of_known
from hypertare.protocol.records import TaskResult

RESPONSES = (
    Response("context_switch_rate", "switches/s", "lower", "context switches of the node's CPUs"),
    Response("switches_per_megabyte", "switches/MB", "lower", "context switches per 10^6 bytes"),
    Response("fault_rate", "faults/s", "lower", "page faults of the node"),
    Response("faults_per_megabyte", "faults/MB", "lower", "page faults per 10^6 bytes"),
    Response("calls_per_megabyte", "calls/MB", "lower", "the stream's system calls per 10^6 bytes"),
    Response(
        "mean_segment",
        "B",
        "higher",
        "payload of a TCP segment as the node sent or took it",
        "mean",
    ),
)

_MEGABYTE = 1e6


def measure(phase: Phase, node: str) -> Found:
    """Of one node: `node` is where the counters are, and its tasks are those that sent or received."""
    megabytes = (phase.total("receive", "all_bytes") or 0.0) / _MEGABYTE
    switches = phase.probe(node, STAT.name, "context_switches")
    faults = phase.probe(node, VMSTAT.name, "pgfault")
    own = [task for role in ("send", "receive") for task in _own(phase, role, node)]
    calls = sum_of_known(task.values.get("all_calls") for task in own)
    return {
        "context_switch_rate": phase.rate(node, STAT.name, switches),
        "switches_per_megabyte": _over(switches, megabytes),
        "fault_rate": phase.rate(node, VMSTAT.name, faults),
        "faults_per_megabyte": _over(faults, megabytes),
        "calls_per_megabyte": _over(calls, megabytes),
        "mean_segment": _mean_segment(phase, node),
    }


def _mean_segment(phase: Phase, node: str) -> float | None:
    """Returns the mean payload of a TCP segment in bytes; None if the node both sends and receives.

    Received segments are counted as they come from the NIC's driver, where GRO joins several into one.
    """
    sent, received = _own(phase, "send", node), _own(phase, "receive", node)
    if bool(sent) == bool(received) or are_datagrams(phase):
        return None
    # What was sent before does not count, but what a NIC would cut counts apart.
    counter = "TcpExt.TCPOrigDataSent" if sent else "Tcp.InSegs"
    segments = phase.probe(node, NET_SNMP.name, counter)
    return _over(sum(task.values.get("all_bytes", 0.0) for task in sent or received), segments)


def are_datagrams(phase: Phase) -> bool:
    return phase.total("receive", "lost_packets") is not None


def _own(phase: Phase, role: str, node: str) -> list[TaskResult]:
    return [task for task in phase.results_of(role) if task.node == node]


def _over(count: float | None, of: float | None) -> float | None:
    return None if count is None or not of else count / of
