"""`knobs.guest_weights`: the guests' weights in the scheduler that they share, in their order."""

from __future__ import annotations

from hypertare.knobs.knob import KnobKind
from hypertare.platforms.commands import Entry, KnobChange
from hypertare.protocol import plan


def _typed(change: KnobChange) -> Entry:
    """Returns the commands for a user. `cpu_weight` of xl.cfg(5) keeps the weight of a guest."""
    note = (
        f"One a guest, in their order: {change.new} (was {change.was}): xl sched-credit -d GUEST -w "
        "WEIGHT now, and `cpu_weight = WEIGHT` in its configuration for its next start."
    )
    return Entry("host", look_first=("xl sched-credit",), note=note)


GUEST_WEIGHTS = KnobKind[tuple[int, ...]](
    name="guest_weights",
    place="guest",
    commands={"": _typed},
    # Guests beyond the last weight have none.
    for_agent=lambda level, target: [
        plan.SchedulerWeight(weight=weight, guest=target.guest)
        for weight in level[target.rank : target.rank + 1]
    ],
)
