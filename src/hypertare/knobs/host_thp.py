"""`knobs.host_thp`: transparent huge pages of the machine below a guest."""

from __future__ import annotations

from hypertare.knobs.thp import Thp, typed


class HostThp(Thp):
    name = "host_thp"
    place = "below"
    commands = typed("host")


HOST_THP = HostThp()
