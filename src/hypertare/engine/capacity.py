"""Capacities: the most that workloads carry, for rates that are given as shares. Pure.

`hypertare.engine.session` measures them. The capacity of a stream is its goodput without pacing, with the
study's own knobs and not the levels of a factor. With several platforms on one bench it is the least of
their goodputs, because all of them are offered the same rate.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable
from dataclasses import dataclass

from hypertare.base.errors import MachineError
from hypertare.base.level import Cell
from hypertare.design.asks import Ask
from hypertare.design.design import Design, Variant, WholePlot
from hypertare.design.planner import Capacity
from hypertare.design.trials import FinishedTrial
from hypertare.study import Study, StudyFile

_TRIALS = 3
"""Trials of each capacity by the wall clock. All rates of a run are shares of one figure, so its error
moves no comparison.
"""


def capacity_replicates(study: Study) -> int:
    """Returns the number of trials that each capacity is measured by."""
    return 1 if study.clock_kind.repeats else _TRIALS


@dataclass(frozen=True)
class Need:
    """A capacity that the study's rates are shares of."""

    workload: str
    plot: WholePlot

    def cell(self, variant: Variant) -> Cell:
        return {**self.plot.levels, **variant.levels}

    def ask(self, variant: Variant, replicate: int) -> Ask:
        levels = {**self.cell(variant), f"workloads.{self.workload}.rate": None}
        return Ask(levels, self.cell(variant), replicate)


def capacity_needs(file: StudyFile, study: Study, design: Design) -> list[Need]:
    """The capacities that must be known before anything else is planned."""
    found = []
    for workload in study.workloads:
        path = f"workloads.{workload}.rate"
        cells = [study, *(file.cell({path: v}) for v in study.factors_of(workload).get(path, ()))]
        if any(cell.workloads[workload].is_share_of_capacity for cell in cells):
            found += [Need(workload, plot) for plot in design.plots]
    return found


def measured_capacity(need: Need, trials: Iterable[FinishedTrial]) -> Capacity | None:
    """The capacity, none while a platform has no trial of it yet.

    Raises:
        MachineError: a trial failed, or nothing came through.
    """
    known = [trial for trial in trials if trial.planned.kind == "capacity"]
    medians = []
    for variant in need.plot.variants:
        of = variant.platform, {"workload": need.workload, **need.cell(variant)}
        mine = [_goodput(one) for one in known if (one.planned.platform, one.planned.cell) == of]
        if not mine:
            return None
        medians.append(statistics.median(mine))
    return Capacity(need.workload, need.plot.levels, min(medians))


def _goodput(trial: FinishedTrial) -> float:
    goodput = trial.values.get("goodput", 0.0)
    if trial.status == "failed" or not goodput > 0:
        raise MachineError(
            f"the capacity of {trial.planned.workload} on {trial.planned.platform} is not known: "
            f"{trial.error or 'nothing came through'}",
            "Rates in '% of capacity' are shares of what the stream carries when nothing paces it. "
            "Mend what failed, or give rates in b/s.",
        )
    return goodput
