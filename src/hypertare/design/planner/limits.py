"""The time that a trial may take beyond its workload's own limit."""

from __future__ import annotations

from collections.abc import Sequence

from hypertare.study import Study
from hypertare.workloads.pair import Pair
from hypertare.workloads.workload import SETTLE_S, WorkloadSettings

_BUSY_S = 50.0
"""Seconds that are added to a limit if the machine is as slow as its host is busy."""


def settling_s(working: Sequence[Pair]) -> float:
    """Returns the seconds that further pairs add to a limit: each begins and reads its probes on shared
    CPUs.
    """
    return SETTLE_S * (len(working) - 1)


def patience_s(study: Study, settings: WorkloadSettings) -> float:
    """Returns the seconds that are added to the limit of a timed workload on a machine that its host slows.

    By the wall clock an emulated machine is as slow as its host is busy: with six runnable threads per CPU,
    streams of one second took eleven seconds to begin and end.
    """
    slow = study.machine_kind.is_slowed_by_host and not study.clock_kind.repeats
    return _BUSY_S if slow and settings.kind.is_timed else 0.0
