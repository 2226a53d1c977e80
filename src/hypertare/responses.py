"""Which responses a workload has, and how they come from its records. Pure.

Values of tasks are named in the agent's `values.rs`; a test holds the two together.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from hypertare import packets, together
from hypertare.phase import LOAD, Phase
from hypertare.records import Record
from hypertare.trials import Response


def _response(name: str, unit: str, better: str, title: str) -> Response:
    return Response(name, unit, better, title)  # type: ignore[arg-type]


_CPU = (
    _response("machine_cpu", "s", "lower", "CPU time of the whole machine while it ran"),
    _response("outside_cpu", "s", "lower", "CPU time of the platform as its machine sees it"),
    _response("own_cpu", "s", "lower", "CPU time as the guest itself sees it"),
    *together.OF_CPU,
)

_POLLING = (
    _response(
        "driver_packet_rate", "packets/s", "higher", "packets that the NIC's driver delivered"
    ),
    _response("poll_rate", "polls/s", "lower", "times that the NIC's driver was polled"),
    _response("packets_per_poll", "packets/poll", "higher", "mean packets of a poll"),
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

RESPONSES: dict[str, tuple[Response, ...]] = {
    "command": (
        _response("elapsed", "s", "lower", "elapsed time"),
        _response("user", "s", "lower", "CPU time in user mode"),
        _response("system", "s", "lower", "CPU time in the kernel"),
        _response("minor_faults", "faults", "lower", "minor page faults"),
        _response("major_faults", "faults", "lower", "major page faults"),
        _response("voluntary_switches", "switches", "lower", "voluntary context switches"),
        _response("involuntary_switches", "switches", "lower", "involuntary context switches"),
        _response("peak_memory", "B", "lower", "largest resident set of a process"),
        *_CPU,
    ),
    "stream": (
        _response("goodput", "b/s", "higher", "payload received over time"),
        _response("packet_rate", "packets/s", "higher", "datagrams received over time"),
        _response("sent_rate", "b/s", "higher", "payload sent over time"),
        _response("loss", "share", "lower", "messages that never came back or through"),
        _response("reordered", "packets", "lower", "datagrams that came out of order"),
        _response("retransmits", "segments", "lower", "TCP segments sent again"),
        _response("tcp_rtt", "s", "lower", "TCP's smoothed round-trip time under load"),
        _response(
            "cpu_per_gigabyte", "s/GB", "lower", "CPU time of the whole machine per 10^9 bytes"
        ),
        *together.OF_STREAMS,
        *_CPU,
        *_POLLING,
    ),
    "ping": (
        _response("rtt_p50", "s", "lower", "median round-trip time"),
        _response("rtt_mean", "s", "lower", "mean round-trip time"),
        _response("rtt_p99", "s", "lower", "99th percentile of the round-trip time"),
        _response("rtt_p999", "s", "lower", "99.9th percentile of the round-trip time"),
        _response("rtt_jitter", "s", "lower", "mean change from one round trip to the next"),
        _response("loss", "share", "lower", "messages that never came back or through"),
        *_CPU,
    ),
    "burn": (
        _response("work_rate", "loops/s", "higher", "units of work done over time"),
        _response("share", "share", "higher", "CPU share received"),
        *_CPU,
    ),
}

_OWN_MACHINE = ("guest", "xen")
"""Platforms whose system under test has a kernel and counters of its own."""

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


HEADLINE = {"command": "elapsed", "stream": "goodput", "ping": "rtt_p50", "burn": "work_rate"}
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
    values |= _driver(platform, phase)
    values["machine_cpu"] = _machine_cpu(platform, phase, values)
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
    due = together.entitlements(_working(parts, phase), _weights(nodes, phase))
    for guest, share in due.items():
        parts[guest]["entitlement"] = share
    return tuple(parts.get(guest, {}) for guest in range(1, max(phase.guests) + 1))


def why_not(workload: str, records: Iterable[Record]) -> str:
    """Why a trial that ended in good order has not its leading response."""
    phase = Phase.of(records)
    if workload == "stream" and phase.guests and together.common_of(phase) is None:
        return "its guests' streams never ran all at the same time; give them more time with 'duration'"
    return f"the trial ended without its {HEADLINE[workload]}"


Found = dict[str, float | None]


def _of_one(workload: str, platform: str, node: str, phase: Phase) -> Found:
    """Of a phase that one system under test had for itself, or of one guest's part of it."""
    values: Found = {} if _only_disturbs(phase) else _MEASURES[workload](phase)
    if platform != "native":
        values["outside_cpu"] = phase.probe(node, "outside", "cpu_s")
        if workload == "stream":
            share = phase.rate(node, "outside", values["outside_cpu"])
            values["outside_cpu_share"] = share
    if platform in _OWN_MACHINE:
        values["own_cpu"] = phase.probe(node, "stat", "busy_s")
    if workload == "stream" and phase.has_counters_of(node):
        values |= _polling(phase, node)
    return values


def _of_all(workload: str, platform: str, nodes: Sequence[str], phase: Phase) -> Found:
    """Of all guests together."""
    parts = _parts(workload, platform, nodes, phase)
    working = _working(parts, phase)
    values: Found = {**together.join(working)}
    if workload == "stream":
        found = together.common_of(phase)
        values |= {**_stream(phase), "goodput": values.get("goodput")}
        values |= together.of_streams(working, found)
        if len(nodes) == 1 and phase.has_counters_of(nodes[0]):
            values |= _polling(phase, nodes[0])
    elif workload == "ping":
        values |= together.round_trips(phase)
    values |= together.of_cpu(working, _weights(nodes, phase))
    for name in ("outside_cpu", "outside_cpu_share"):
        if any(name in part for part in parts.values()):
            values[name] = _whole([part.get(name) for part in parts.values()])
    if phase.neighbours:
        loads = [parts[guest].get("outside_cpu") for guest in phase.neighbours]
        values["neighbours_cpu"] = _whole(loads)
    return values


def _parts(
    workload: str, platform: str, nodes: Sequence[str], phase: Phase
) -> dict[int, dict[str, float]]:
    """By guest; a stream's goodput is over the common interval."""
    parts = {
        guest: _known(_of_one(workload, platform, node, phase.of_guest(guest, node)))
        for guest, node in _node_of(nodes, phase).items()
    }
    if workload == "stream":
        together.with_common_rates(parts, together.common_of(phase))
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


def _driver(platform: str, phase: Phase) -> Found:
    """CPU time of the domain that moves the guests' packets, as the hypervisor counts it."""
    if platform != "xen":
        return {}
    used = phase.probe("host", "outside", "cpu_s")
    return {"driver_cpu": used, "driver_cpu_share": phase.rate("host", "outside", used)}


def _machine_cpu(platform: str, phase: Phase, values: Found) -> float | None:
    """No kernel sees all of a hypervisor's CPUs: it is the sum of its domains."""
    if platform == "xen":
        return _whole([values.get("outside_cpu"), values.get("driver_cpu")])
    return phase.probe("host", "stat", "busy_s")


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
    lost_known = phase.total("receive", "lost_packets") is not None
    flows = max(1, sum(task.startswith("send") for task in phase.results))
    rtt = phase.total("send", "rtt_s")
    return {
        "goodput": phase.total("receive", "goodput_bps"),
        "packet_rate": _packet_rate(phase) if lost_known else None,
        "sent_rate": phase.total("send", "sent_bps"),
        # Sent is counted at the sender, received at the receiver: what is between is lost, wherever.
        "loss": max(0.0, 1 - received / sent)
        if lost_known and sent and received is not None
        else None,
        "reordered": phase.total("receive", "reordered_packets") if lost_known else None,
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


def _packet_rate(phase: Phase) -> float | None:
    rates = [
        result.values["received_packets"] / result.values["elapsed_s"]
        for task, result in phase.results.items()
        if task.startswith("receive") and result.values.get("elapsed_s")
    ]
    return sum(rates) if rates else None


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


_MEASURES = {"command": _command, "stream": _stream, "ping": _ping, "burn": _burn}
