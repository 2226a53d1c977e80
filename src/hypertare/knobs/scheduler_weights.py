"""Weights of Xen's scheduler: the driver domain's and the guests'."""

from __future__ import annotations

import shlex

from hypertare.knobs.knob import KnobKind
from hypertare.platforms.commands import Entry, KnobChange, at_boot
from hypertare.protocol import plan


def _typed_of_driver(change: KnobChange) -> Entry:
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
    commands={"": _typed_of_driver},
    for_agent=lambda level, _: [plan.SchedulerWeight(weight=level)],
)


def _typed_of_guests(change: KnobChange) -> Entry:
    """Returns the commands for a user. `cpu_weight` of xl.cfg(5) keeps the weight of a guest."""
    note = (
        f"One a guest, in their order: {change.new} (was {change.was}): xl sched-credit -d GUEST -w "
        "WEIGHT now, and `cpu_weight = WEIGHT` in its configuration for its next start."
    )
    return Entry("host", look_first=("xl sched-credit",), note=note)


GUEST_WEIGHTS = KnobKind[tuple[int, ...]](
    name="guest_weights",
    place="guest",
    commands={"": _typed_of_guests},
    # Guests beyond the last weight have none.
    for_agent=lambda level, target: [
        plan.SchedulerWeight(weight=weight, guest=target.guest)
        for weight in level[target.rank : target.rank + 1]
    ],
)
