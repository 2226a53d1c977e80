"""`knobs.busy_poll`: microseconds for which a socket polls its NIC before it sleeps."""

from __future__ import annotations

from collections.abc import Iterator

from hypertare.knobs.knob import KnobKind, Target
from hypertare.platforms.commands import sysctls
from hypertare.protocol import plan


class BusyPoll(KnobKind[int]):
    name = "busy_poll"
    place = "interface"
    commands = {"": sysctls(("net.core.busy_poll", "net.core.busy_read"))}
    for_own_machines = True

    def for_agent(self, level: int, target: Target) -> Iterator[plan.Knob]:
        yield plan.BusyPoll(microseconds=level)


BUSY_POLL = BusyPoll()
