"""What warm-ups, which count for nothing, are used for after all."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from hypertare.base.words import listing
from hypertare.design.trials import FinishedTrial
from hypertare.probes.napi import OF_POLLS


def with_polls(trials: Sequence[FinishedTrial]) -> list[FinishedTrial]:
    """With the polls that only a warm-up counted, for counting takes time: beside the first trial of its
    cell and boot, so that a boot has them once, as they were counted once.
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
    """Workloads of which the time limit, or an interruption, came before anything was measured."""
    kinds: dict[str, set[str]] = {}
    for trial in trials:
        if trial.status == "ok" or trial.planned.kind == "measured":
            kinds.setdefault(trial.planned.workload, set()).add(trial.planned.kind)
    return tuple(
        name for name, found in kinds.items() if "warmup" in found and "measured" not in found
    )


def counting(trials: Sequence[FinishedTrial], workloads: Sequence[str]) -> list[FinishedTrial]:
    """With the warm-ups of these workloads as measured: a figure with a warning (`of_first_executions`) is
    more of an answer than none.
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
