"""The order in which a study names its cells: that of tables. Trials run in one that is drawn by lot."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from hypertare.design.trials import FinishedTrial


def in_order(
    trials: Iterable[FinishedTrial], settings: Mapping[str, Any], platforms: Sequence[str]
) -> list[FinishedTrial]:
    """Workload by workload, the first factor's levels outermost, platforms as they are listed; within a
    cell as they were run. What the study's `settings` do not name comes first, as it was.
    """
    workloads: Mapping[str, Any] = settings.get("workloads", {})
    placed: dict[str, dict[str, int]] = {}
    for of in (settings, *workloads.values()):
        for path, levels in of.get("factors", {}).items():
            places = placed.setdefault(path, {})
            for level in levels:
                places.setdefault(str(level), len(places))
    of_workload, of_platform = _places(workloads), _places(platforms)

    def place(trial: FinishedTrial) -> tuple[int, ...]:
        cell = trial.planned.cell
        levels = (places.get(str(cell.get(path)), -1) for path, places in placed.items())
        workload = of_workload.get(str(cell.get("workload")), -1)
        return (workload, *levels, of_platform.get(trial.planned.platform, -1))

    return sorted(trials, key=place)


def _places(names: Iterable[Any]) -> dict[str, int]:
    return {str(name): place for place, name in enumerate(names)}
