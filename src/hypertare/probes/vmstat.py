"""`vmstat`: what a kernel's memory went through, by its own names: faults, swapping, reclaim."""

from __future__ import annotations

from hypertare.probes.probe import ProbeKind


class Vmstat(ProbeKind):
    """Optional: it is a value for each of some 100 names. Workloads make responses of it."""

    name = "vmstat"
    places = ("machine",)
    is_optional = True


VMSTAT = Vmstat()
