"""`schedstat`: how long tasks ran on a machine's CPUs, exactly."""

from __future__ import annotations

from hypertare.probes.probe import ProbeKind


class Schedstat(ProbeKind):
    name = "schedstat"
    places = ("host",)
    is_optional = True


SCHEDSTAT = Schedstat()
