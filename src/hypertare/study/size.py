"""How many cells a study has, and how long their trials take: known without making one of them. Pure."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from hypertare.base.units import human_duration
from hypertare.study.factors import is_easy

if TYPE_CHECKING:
    from hypertare.study.study import Study

MOST_CELLS = 10_000
"""Most cells of a study, over all workloads and platforms: a night's work at half a second per trial. A run
holds all of them at once.
"""

_TRIAL_OVERHEAD_S = 0.3
_UNKNOWN_COMMAND_S = 2.0


def expected_trial_s(study: Study, workload: str) -> float:
    """Seconds of one trial, before any of it was seen."""
    expected = study.workloads[workload].expected_s
    return (_UNKNOWN_COMMAND_S if expected is None else expected) + _TRIAL_OVERHEAD_S


def can_be_carried_out(study: Study) -> None:
    """The study has few enough cells to be carried out."""
    count = cells(study)
    if count <= MOST_CELLS:
        return
    a_round = sum(_cells(study, name) * expected_trial_s(study, name) for name in study.workloads)
    time = human_duration(a_round * study.design.min_trials)
    levels = [len(of) for of in study.all_factors.values() if len(of) > 1]
    raise ValueError(
        f"its factors make {count:,} cells ({' x '.join(map(str, levels))} levels, "
        f"{_several(len(study.workloads), 'workload')}, {_several(len(study.platforms), 'platform')}), "
        f"{MOST_CELLS:,} are the most: with {study.design.min_trials} trials of each "
        f"(design.min_trials) it would take {time} without boots. Leave out factors or levels (--set "
        "FACTOR=LEVEL keeps one), or find good settings without trying all of them: name what may "
        "change in [tune.knobs] in place of [factors], for `hypertare tune`"
    )


def cells(study: Study) -> int:
    """Returns the number of cells over all workloads and platforms, which is that of trials if each has
    one.
    """
    return sum(_cells(study, name) for name in study.workloads)


def _cells(study: Study, workload: str) -> int:
    """Returns the number of cells of a workload over all platforms; each variant of a guest has its own."""
    easy = math.prod(len(levels) for levels in study.factors_of(workload).values())
    bench = {
        path: len(levels)
        for path, levels in study.factors.items()
        if not path.startswith("workloads.") and not is_easy(path, workload)
    }
    return easy * sum(
        math.prod(count for path, count in bench.items() if study.reaches(platform, path))
        for platform in study.platforms
    )


def _several(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"
