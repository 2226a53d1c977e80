"""The time that a trial may take beyond its workload's own limit."""

from __future__ import annotations

from collections.abc import Sequence

from hypertare.workloads.pair import Pair
from hypertare.workloads.workload import SETTLE_S


def settling_s(working: Sequence[Pair]) -> float:
    """Returns the seconds that further pairs add to a limit: each begins and reads its probes on shared
    CPUs.
    """
    return SETTLE_S * (len(working) - 1)
