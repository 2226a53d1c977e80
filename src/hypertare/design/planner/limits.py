"""How long work is asked to take, and what it may take beyond its own limit."""

from __future__ import annotations

from collections.abc import Sequence

from hypertare.study import Study
from hypertare.workloads.pair import Pair
from hypertare.workloads.workload import SETTLE_S, WorkloadSettings

_BUSY_S = 50.0
"""What is added to a limit where the machine's clock is this host's."""


def settling_s(working: Sequence[Pair]) -> float:
    """What further ones add: each has to begin, and to read its probes, on CPUs that it shares."""
    return SETTLE_S * (len(working) - 1)


def expected_seconds(settings: WorkloadSettings) -> float | None:
    """How long a workload is asked to take; none if only a trial can show it."""
    return settings.expected_s


def patience_s(study: Study, settings: WorkloadSettings) -> float:
    """By the wall clock an emulated machine is as slow as its host is busy: with six runnable threads a
    CPU, streams of a second took eleven to begin and end.
    """
    slow = study.machine_kind.is_slowed_by_host and not study.clock_kind.repeats
    return _BUSY_S if slow and settings.kind.is_timed else 0.0
