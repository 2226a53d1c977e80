"""Makes the responses of a trial: of its tasks, by the kind of workload, and of its nodes' counters. Pure.

Values of tasks are named in `VALUES` of the agent's workloads; `tests/protocol/test_protocol.py` holds the
two together.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from hypertare.base.variables import VIRTUAL, Found, Response, Values, known, whole
from hypertare.platforms.registry import find
from hypertare.probes import registry as probes
from hypertare.probes.cpu_time import STAT
from hypertare.probes.outside import OUTSIDE
from hypertare.protocol.phase import LOAD, Phase
from hypertare.protocol.records import Record
from hypertare.walk.processors import NONE
from hypertare.workloads import guests
from hypertare.workloads.registry import KINDS
from hypertare.workloads.workload import Workload, WorkloadSettings

RESPONSES: dict[str, tuple[Response, ...]] = {name: kind.responses for name, kind in KINDS.items()}
"""By the kind of workload."""

HEADLINE = {name: kind.headline for name, kind in KINDS.items()}
"""By the kind of workload, the response that decides when it is measured precisely enough, and leads a
report.
"""

WALK_CYCLES, WALK_TIME = "modelled_walk_cycles", "modelled_walk_time"
TOTAL = "estimated_total"

MODELLED: tuple[Response, ...] = (
    Response(WALK_CYCLES, "cycles", "lower", "modelled cycles of translating addresses"),
    Response(WALK_TIME, "s", "lower", "modelled time of translating addresses"),
    Response(TOTAL, "s", "lower", "elapsed time and modelled time of translating addresses"),
)
"""Of workloads whose elapsed time is joined with modelled page walks; see `hypertare.findings.totals`."""

_COUNTED = "Virtual time counts the machine's instructions, each as long as any other"
_REPEATS = "so a run repeats exactly and its figures say how much"
_WITHOUT_WALKS = (
    f"{_COUNTED}, {_REPEATS} code the work needs. What it leaves out is what hardware "
    "adds (caches, TLB misses, page walks, memory bandwidth): never set them beside "
    "figures of the wall clock."
)
_WITH_WALKS = (
    f"{_COUNTED}, and the cycles of TLB misses and page walks as on a model of %s, {_REPEATS} code and "
    "address translation the work needs. What it leaves out is what hardware adds beside that (caches of "
    "data, memory bandwidth): never set them beside figures of the wall clock."
)


def meaning(clock: str, walks: Sequence[str] = ()) -> str:
    """Returns the explanation that stands beside figures of a clock; empty for the wall clock.

    `walks` are the levels of `emulated.walks`, if page walks take time with any.
    """
    if clock != "virtual":
        return ""
    if not walks:
        return _WITHOUT_WALKS
    named = [one for one in walks if one != NONE]
    free = "" if len(named) == len(walks) else " (or free, where emulated.walks is none)"
    return _WITH_WALKS % (" or ".join(named) + free)


def mark_of(clock: str) -> str:
    """Returns the mark that units of this clock's figures end with."""
    return VIRTUAL if clock == "virtual" else ""


def of_clock(response: Response, clock: str) -> Response:
    """The response as a run by this clock has it."""
    return replace(response, unit=response.unit + mark_of(clock))


def of_workload(workload: WorkloadSettings, *, walked: bool) -> tuple[Response, ...]:
    """All responses of a workload, modelled ones among them where it is walked."""
    return workload.responses + (MODELLED if walked else ())


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
    kind, phase = KINDS[workload], Phase.of(records)
    if phase.guests:
        values = _of_all(kind, platform, nodes, phase)
    else:
        values = _of_one(kind, platform, nodes[0], phase)
    values |= kind.measure_peers(phase, nodes)
    if kind.works_on_node:
        values |= OUTSIDE.driver_cpu(platform, nodes, phase)
    # No kernel sees all of a hypervisor's CPUs: it is the sum of its domains, idle ones too.
    under_hypervisor = find(platform).under_hypervisor
    machine_cpu = OUTSIDE.all_s(phase) if under_hypervisor else STAT.busy_s(phase)
    values["machine_cpu"] = machine_cpu
    if not under_hypervisor:
        values["machine_steal"] = STAT.steal_s(phase)
    if kind.translates:
        values |= probes.measure("translation", phase, platform, nodes)
    if machine_cpu is not None:
        values |= kind.measure_machine(phase, machine_cpu)
    return known(values)


def of_guests(
    workload: str, platform: str, nodes: Sequence[str], records: Iterable[Record]
) -> tuple[dict[str, float], ...]:
    """The same of each guest where several worked at once, the first one's first; else nothing.

    One that was there to disturb has its CPU time and no more.
    """
    phase = Phase.of(records)
    if not phase.guests:
        return ()
    parts = _parts(KINDS[workload], platform, nodes, phase)
    due = guests.entitlements(_working(parts, phase), _weights(nodes, phase))
    for guest, share in due.items():
        parts[guest]["entitlement"] = share
    return tuple(parts.get(guest, {}) for guest in range(1, max(phase.guests) + 1))


def why_not(workload: str, records: Iterable[Record]) -> str:
    """Why a trial that ended in good order has not its leading response."""
    return KINDS[workload].why_not(Phase.of(records))


def _of_one(kind: Workload, platform: str, node: str, phase: Phase) -> Found:
    """Returns the values of a phase with a single system under test, or of one guest's part of a phase."""
    only_disturbs = bool(phase.results) and len(phase.tasks(LOAD)) == len(phase.results)
    values: Found = {} if only_disturbs else kind.measure(phase)
    if not kind.works_on_node:
        return values
    if find(platform).is_seen_from_outside:
        outside_cpu = OUTSIDE.cpu_s(platform, phase, node)
        values["outside_cpu"] = outside_cpu
        if kind.polls:
            values["outside_cpu_share"] = phase.rate(node, OUTSIDE.name, outside_cpu)
    if find(platform).has_own_kernel:
        values["own_cpu"] = STAT.busy_s(phase, node)
        values["own_steal"] = STAT.steal_s(phase, node)
    values |= _of_counters(kind, platform, node, phase)
    return values


def _of_counters(kind: Workload, platform: str, node: str, phase: Phase) -> Found:
    """Returns the values of a node's counters; empty for a node that is no machine of its own."""
    if not phase.has_counters_of(node):
        return {}
    values: Found = {}
    if kind.polls:
        values = probes.measure("polling", phase, platform, (node,))
        values[STAT.own_share.name] = phase.rate(node, STAT.name, STAT.busy_s(phase, node))
    return values | kind.measure_node(phase, node)


def _of_all(kind: Workload, platform: str, nodes: Sequence[str], phase: Phase) -> Found:
    """Returns the values of all guests together."""
    parts = _parts(kind, platform, nodes, phase)
    working = _working(parts, phase)
    joined = guests.join(working, kind.responses)
    values: Found = {**joined, **kind.measure_together(working, joined, phase)}
    if len(nodes) == 1:
        values |= _of_counters(kind, platform, nodes[0], phase)
    values |= guests.of_cpu(working, _weights(nodes, phase))
    for name in ("outside_cpu", "outside_cpu_share"):
        if any(name in part for part in parts.values()):
            values[name] = whole([part.get(name) for part in parts.values()])
    if phase.neighbours:
        for name in ("cpu", "cpu_share"):
            loads = [parts[guest].get(f"outside_{name}") for guest in phase.neighbours]
            values[f"neighbours_{name}"] = whole(loads)
        values["jain_neighbours_cpu"] = guests.evenness(
            [parts[guest].get("outside_cpu") for guest in phase.neighbours]
        )
    return values


def _parts(kind: Workload, platform: str, nodes: Sequence[str], phase: Phase) -> dict[int, Values]:
    """Returns the values of each guest."""
    parts = {
        guest: known(_of_one(kind, platform, node, phase.of_guest(guest, node)))
        for guest, node in _node_of(nodes, phase).items()
    }
    return kind.beside_others(parts, phase)


def _working(parts: dict[int, Values], phase: Phase) -> dict[int, Values]:
    return {guest: part for guest, part in parts.items() if guest not in phase.neighbours}


def _node_of(nodes: Sequence[str], phase: Phase) -> dict[int, str]:
    """Returns the node of each guest; an empty name on the baseline, whose node belongs to no single guest.

    Raises:
        ValueError: the guests are not numbered from 1 on, or are more than there are nodes.
    """
    count = len(phase.guests)
    if phase.guests != tuple(range(1, count + 1)) or 1 < len(nodes) < count:
        raise ValueError(f"its guests have the numbers {list(phase.guests)}")
    if len(nodes) == 1:
        return dict.fromkeys(phase.guests, "")
    return {guest: nodes[guest - 1] for guest in phase.guests}


def _weights(nodes: Sequence[str], phase: Phase) -> dict[int, float]:
    """By guest, of those to which the trial gave one."""
    named = {guest: phase.weights.get(node) for guest, node in _node_of(nodes, phase).items()}
    return {guest: weight for guest, weight in named.items() if weight is not None}
