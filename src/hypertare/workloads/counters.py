"""Responses of probes, beside those of tasks: CPU time of any workload, and what some kinds are asked."""

from __future__ import annotations

from hypertare.probes import registry
from hypertare.probes.outside import OUTSIDE
from hypertare.probes.stat import STAT
from hypertare.workloads import guests

MACHINE_CPU = (STAT.machine_cpu, STAT.machine_steal)

CPU = (
    STAT.machine_cpu,
    OUTSIDE.cpu,
    STAT.own_cpu,
    STAT.machine_steal,
    STAT.own_steal,
    *guests.OF_CPU,
)

POLLING = (*registry.responses("polling"), STAT.own_share, OUTSIDE.share)
"""Of the system under test where it is a whole machine: a guest, or an emulated machine. Rates and
shares are over the whole phase, with what a stream omits and its end."""

TRANSLATION = registry.responses("translation")
