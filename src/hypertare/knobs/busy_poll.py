"""`knobs.busy_poll`: microseconds for which a socket polls its NIC before it sleeps."""

from __future__ import annotations

from hypertare.knobs.knob import KnobKind
from hypertare.platforms.commands import sysctls
from hypertare.protocol import plan

BUSY_POLL = KnobKind[int](
    name="busy_poll",
    place="interface",
    commands={"": sysctls(("net.core.busy_poll", "net.core.busy_read"))},
    for_own_machines=True,
    for_agent=lambda level, _: [plan.BusyPoll(microseconds=level)],
)
