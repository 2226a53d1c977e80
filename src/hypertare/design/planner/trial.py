"""The plan of one trial. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from hypertare.design.design import Variant, WholePlot
from hypertare.design.planner.bench import way
from hypertare.design.planner.hosts import like
from hypertare.design.planner.knobs import knob_settings
from hypertare.design.planner.limits import settling_s
from hypertare.design.planner.machine_resources import MachineResources
from hypertare.design.planner.nodes import host_of_guests
from hypertare.design.planner.pairs import pairs
from hypertare.design.planner.probes import probes_of
from hypertare.design.planner.tasks import make_tasks
from hypertare.protocol import plan
from hypertare.protocol.phase import PHASE, REACH
from hypertare.study import Study
from hypertare.workloads.pair import Pair
from hypertare.workloads.workload import SETTLE_S

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
