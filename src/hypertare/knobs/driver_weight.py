"""`knobs.driver_weight`: the driver domain's weight in the scheduler that it shares with the guests."""

from __future__ import annotations

import shlex

from hypertare.knobs.knob import KnobKind
from hypertare.platforms.commands import Entry, KnobChange, at_boot
from hypertare.protocol import plan


def _typed(change: KnobChange) -> Entry:
    """Source: xl(1), sched-credit; libxl's domains have it from their configuration, dom0 has none."""
    apply, undo = change.each(lambda v: f"xl sched-credit -d Domain-0 -w {shlex.quote(v)}")
    keep, forget = at_boot(change.path, apply)
    note = "With the scheduler credit2 it is `xl sched-credit2`."
    return Entry(
        "host", ("xl sched-credit -d Domain-0",), (apply,), keep, (undo, *forget), note=note
    )


DRIVER_WEIGHT = KnobKind[int](
    name="driver_weight",
    place="driver",
    commands={"": _typed},
    for_agent=lambda level, _: [plan.SchedulerWeight(weight=level)],
)
