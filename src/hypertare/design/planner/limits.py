"""How long work is asked to take, and may."""

from __future__ import annotations

from collections.abc import Sequence

from hypertare.design.planner.pairs import Pair
from hypertare.study import (
    BurnSettings,
    CommandSettings,
    ForkSettings,
    PingSettings,
    StreamSettings,
    Study,
    TouchSettings,
)

SETTLE_S = 10.0
"""Time that a phase may take beyond what its tasks are asked to do, on a slow emulated guest."""

_BUSY_S = 50.0
"""What is added to that where the machine's clock is this host's."""


def settling_s(working: Sequence[Pair]) -> float:
    """What further ones add: each has to begin, and to read its probes, on CPUs that it shares."""
    return SETTLE_S * (len(working) - 1)


def expected_seconds(settings: object) -> float | None:
    """How long a workload is asked to take; none if only a trial can tell."""
    match settings:
        case CommandSettings():
            return settings.expected
        case ForkSettings():
            return None
        case TouchSettings():
            return settings.duration_s
    return float(getattr(settings, "duration", 0.0))


def patience_s(study: Study, settings: object) -> float:
    """By the wall clock an emulated machine is as slow as its host is busy: with six runnable threads a
    CPU, streams of a second took eleven to begin and end.
    """
    slow = study.machine == "emulated" and study.clock == "wall"
    timed = isinstance(settings, StreamSettings | PingSettings | BurnSettings)
    return _BUSY_S if slow and timed else 0.0


def time_limit_s(settings: object) -> float:
    """What the user said of a command and its like, for the others what they are asked to do and some
    more.
    """
    match settings:
        case CommandSettings() | ForkSettings() | TouchSettings():
            return settings.limit
        case StreamSettings():
            return settings.duration + settings.omit + SETTLE_S
        case PingSettings():
            return settings.duration + settings.timeout + SETTLE_S
        case BurnSettings():
            return settings.duration + SETTLE_S
    raise AssertionError(f"unknown workload settings: {settings!r}")
