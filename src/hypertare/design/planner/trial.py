"""The plan of one trial: what the nodes do in it, and how long that may take. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from hypertare.analyses.registry import asked as analyses_asked
from hypertare.design.design import Variant, WholePlot
from hypertare.design.planner.bench import like, way
from hypertare.design.planner.knobs_and_probes import knob_settings, probes_of
from hypertare.design.planner.machine_resources import MachineResources
from hypertare.design.planner.network import pairs
from hypertare.design.planner.nodes import host_of_guests
from hypertare.protocol import plan
from hypertare.protocol.phase import PHASE, REACH
from hypertare.study import Study
from hypertare.workloads.pair import Pair
from hypertare.workloads.stream import load_tasks
from hypertare.workloads.workload import SETTLE_S, TaskInputs


def settling_s(working: Sequence[Pair]) -> float:
    """Returns the seconds that further pairs add to a limit: each begins and reads its probes on shared
    CPUs.
    """
    return SETTLE_S * (len(working) - 1)


def make_tasks(
    study: Study,
    workload: str,
    working: Sequence[Pair],
    plot: WholePlot,
    on: MachineResources,
    warmup: bool,
    watched: bool,
) -> tuple[Sequence[plan.Task], float]:
    """The tasks of a workload, and the seconds they may take."""
    settings = study.workloads[workload]
    inputs = TaskInputs(
        environment=on.environment,
        cwd=on.workdir or on.directory,
        # The host of guests has none of their programs, nor the directory for them.
        peer_cwd=on.workdir or (None if host_of_guests(study, plot) else on.directory),
        in_files=on.workdir is not None,
        warmup=warmup,
        watched=watched,
        port_offset=on.chance.port(0) if study.machine_kind.draws_chance else 0,
        capacity_bps=_capacity_bps(workload, plot, on),
        gaps=any(kind.asks_for_gaps for kind, _ in analyses_asked(study)),
    )
    seconds = settings.limit_s + settling_s(working)
    load: list[plan.Task] = []
    if settings.load is not None:
        measured = working[settings.load.measured - 1]
        neighbours = [pair for pair in working if pair is not measured]
        load = list(load_tasks(settings.load, neighbours, seconds, inputs))
        working = [measured]
    # They are started at once, but a first one there is: the agent goes by the order of the plan.
    in_order = reversed(working) if settings.starts_last_guest_first else working
    tasks = [task for pair in in_order for task in settings.tasks(pair, inputs)]
    return [*load, *tasks], seconds


def _capacity_bps(workload: str, plot: WholePlot, on: MachineResources) -> float | None:
    """Returns the capacity of a workload in b/s that was measured at levels of this plot; None if unknown.

    The plot may have further levels. So a tuning or a search offers the same rate at every level that it
    tries.
    """
    known = [c for c in on.capacities if c.workload == workload]
    fitting = [c for c in known if c.levels.items() <= plot.levels.items()]
    return max(fitting, key=lambda c: len(c.levels)).bps if fitting else None


_BUSY_S = 50.0
"""Seconds that are added to the limit of a timed workload if the machine is as slow as its host is busy.
With six runnable threads per CPU, streams of one second took eleven seconds to begin and end.
"""


def make_trial(
    id: int,
    study: Study,
    workload: str,
    variant: Variant,
    plot: WholePlot,
    on: MachineResources,
    *,
    warmup: bool = False,
) -> plan.Trial:
    """The plan of one trial.

    Args:
        id: the trial's number.
        study: the study with all of the trial's levels in place.
        workload: the workload's name.
        variant: the variant under test.
        plot: the plot on whose bench it runs.
        on: what the machine gives.
        warmup: it is not counted, so that a guest may get ready in it for those that are.
    """
    settings = study.workloads[workload]
    working = pairs(study, variant, on)
    own_machine = variant.kind.has_own_kernel or study.machine_kind.boots_whole_pcs
    # Watching system calls takes time. A warm-up may cost that, unless its clock repeats exactly.
    watched = warmup and variant.kind.is_baseline and not study.clock_kind.repeats
    tasks, seconds = make_tasks(study, workload, working, plot, on, warmup, watched)
    under = host_of_guests(study, plot)
    slow = study.machine_kind.is_slowed_by_host and not study.clock_kind.repeats
    phase = plan.Phase(
        name=PHASE,
        tasks=tuple(tasks),
        lives=tuple(
            life
            for pair in working
            for life in settings.lives(
                pair, like(variant, pair.rank, study, under, on), on.chance.instant(id)
            )
        ),
        probes=tuple(probes_of(study, workload, variant, plot, working, own_machine, warmup, on)),
        limit_s=seconds + (_BUSY_S if slow and settings.kind.is_timed else 0.0),
    )
    knobs = knob_settings(study, variant, working, way(study, plot, on), own_machine)
    before = _before(id, study, variant, working, on)
    return plan.Trial(id=id, knobs=tuple(knobs), phases=(*before, phase))


def _before(
    id: int, study: Study, variant: Variant, working: Sequence[Pair], on: MachineResources
) -> tuple[plan.Phase, ...]:
    """Returns the phases before the measured one.

    The phase `reach` lets both ends find each other. The phase `offset` delays the start by a random time
    on machines that draw chance from a seed: nothing else would vary it there.
    """
    if not study.machine_kind.draws_chance:
        reached = study.routed or variant.kind.packets_moved_by_host or not variant.kind.is_made
        reached = reached and study.needs_network
        return _reach(working) if reached else ()
    work = plan.Burn(share=1.0, duration_s=on.chance.offset_s(id))
    offset = plan.Task(id="offset", node=working[0].node, workload=work)
    phase = plan.Phase(name="offset", tasks=(offset,), limit_s=SETTLE_S)
    return (*(_reach(working) if study.needs_network else ()), phase)


def _reach(working: Sequence[Pair]) -> tuple[plan.Phase, ...]:
    """An echo, so that both ends know each other's addresses and frames pass.

    QEMU's e1000 takes none in for a second after the kernel has set its filter; and what a sender
    has for an address that is not known yet is dropped where nobody counts it. The second echo is for
    NICs that begin anew for another MTU, and lose what they had.
    """
    tasks = tuple(
        pair.task(
            REACH,
            pair.far.node,
            plan.PingRequest(
                protocol="icmp",
                to=pair.near.address,
                count=2,
                duration_s=1.5 * SETTLE_S,
                timeout_s=SETTLE_S / 2,
            ),
        )
        for pair in working
    )
    return (plan.Phase(name=REACH, tasks=tasks, limit_s=2 * SETTLE_S + settling_s(working)),)
