"""A run's trials as estimates take them: in the order of the study, and with two uses of warm-ups.

Warm-ups otherwise do not count: polls, and workloads of which nothing else was measured.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from hypertare.base.figures import listing
from hypertare.design.trials import FinishedTrial
from hypertare.probes.napi import OF_POLLS


def with_polls(trials: Sequence[FinishedTrial]) -> list[FinishedTrial]:
    """Returns the trials, with the polls that warm-ups counted.

    Counting polls takes time, so only warm-ups do it. Their polls are added to the first trial of the same
    cell and boot that has none, so that a boot has them once.
    """
    counted = {
        _place(trial): {name: trial.values[name] for name in OF_POLLS if name in trial.values}
        for trial in trials
        if trial.planned.kind == "warmup" and trial.status == "ok"
    }
    found = []
    for trial in trials:
        lacks = trial.counts and not any(name in trial.values for name in OF_POLLS)
        polls = counted.pop(_place(trial), {}) if lacks else {}
        found.append(replace(trial, values=trial.values | polls) if polls else trial)
    return found


def _place(trial: FinishedTrial) -> tuple[str, str, int]:
    planned = trial.planned
    return planned.platform, repr(sorted(planned.cell.items())), planned.boot


def of_nothing_measured(trials: Sequence[FinishedTrial]) -> tuple[str, ...]:
    """Returns the workloads that have good warm-ups and no measured trial, because the run ended before."""
    kinds: dict[str, set[str]] = {}
    for trial in trials:
        if trial.status == "ok" or trial.planned.kind == "measured":
            kinds.setdefault(trial.planned.workload, set()).add(trial.planned.kind)
    return tuple(
        name for name, found in kinds.items() if "warmup" in found and "measured" not in found
    )


def counting(trials: Sequence[FinishedTrial], workloads: Sequence[str]) -> list[FinishedTrial]:
    """Returns the trials, with the warm-ups of these workloads turned into measured trials.

    A figure with a warning (`of_first_executions`) is better than no figure.
    """
    return [
        replace(trial, planned=replace(trial.planned, kind="measured"))
        if trial.planned.kind == "warmup" and trial.planned.workload in workloads
        else trial
        for trial in trials
    ]


def of_first_executions(named: Sequence[str]) -> Iterator[str]:
    if named:
        yield (
            f"The run ended before anything of {listing(named)} was measured: its first execution, else "
            "not counted, stands for it, with all that is read and started for the first time."
        )


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
