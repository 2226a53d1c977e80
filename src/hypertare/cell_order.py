"""The order in which a study names its cells: that of tables. Trials run in one that is drawn by lot."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from hypertare.trials import FinishedTrial


def in_order(
    trials: Iterable[FinishedTrial], settings: Mapping[str, Any], platforms: Sequence[str]
) -> list[FinishedTrial]:
    """Workload by workload, the first factor's levels outermost, platforms as they are listed; within a
    cell as they were run. What the study's `settings` do not name comes first, as it was.
    """
    workloads: Mapping[str, Any] = settings.get("workloads", {})
    factors = dict(settings.get("factors", {}))
    for workload in workloads.values():
        factors |= workload.get("factors", {})
    placed = {path: _places(levels) for path, levels in factors.items()}
    of_workload, of_platform = _places(workloads), _places(platforms)

    def place(trial: FinishedTrial) -> tuple[int, ...]:
        cell = trial.planned.cell
        levels = (places.get(str(cell.get(path)), -1) for path, places in placed.items())
        workload = of_workload.get(str(cell.get("workload")), -1)
        return (workload, *levels, of_platform.get(trial.planned.platform, -1))

    return sorted(trials, key=place)


def _places(names: Iterable[Any]) -> dict[str, int]:
    return {str(name): place for place, name in enumerate(names)}
