"""`knobs.guest_weights`: the guests' weights in the scheduler that they share, in their order."""

from __future__ import annotations

from collections.abc import Iterator

from hypertare.knobs.knob import KnobKind, Target
from hypertare.platforms.commands import Entry, KnobChange
from hypertare.protocol import plan


def _typed(change: KnobChange) -> Entry:
    """Returns the commands for a user. `cpu_weight` of xl.cfg(5) keeps the weight of a guest."""
    note = (
        f"One a guest, in their order: {change.new} (was {change.was}): xl sched-credit -d GUEST -w "
        "WEIGHT now, and `cpu_weight = WEIGHT` in its configuration for its next start."
    )
    return Entry("host", look_first=("xl sched-credit",), note=note)


class GuestWeights(KnobKind[tuple[int, ...]]):
    name = "guest_weights"
    place = "guest"
    commands = {"": _typed}

    def for_agent(self, level: tuple[int, ...], target: Target) -> Iterator[plan.Knob]:
        """Guests beyond the last weight have none."""
        for weight in level[target.rank : target.rank + 1]:
            yield plan.SchedulerWeight(weight=weight, guest=target.guest)


GUEST_WEIGHTS = GuestWeights()
