"""What nodes do in a trial: each workload gets what it needs to know of the bench and the machine."""

from __future__ import annotations

from collections.abc import Sequence

from hypertare.analyses.registry import asked as analyses_asked
from hypertare.design.design import WholePlot
from hypertare.design.planner.limits import settling_s
from hypertare.design.planner.machine_resources import MachineResources
from hypertare.design.planner.nodes import host_of_guests
from hypertare.protocol import plan
from hypertare.study import Study
from hypertare.workloads.load import load_tasks
from hypertare.workloads.pair import Pair
from hypertare.workloads.workload import TaskInputs


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
