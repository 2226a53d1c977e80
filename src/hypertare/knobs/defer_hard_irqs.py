"""`knobs.defer_hard_irqs`: polls go on for a while after the last packet, without interrupts."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from hypertare.base.settings import Settings
from hypertare.knobs.knob import Count, KnobKind
from hypertare.platforms.commands import of_interface
from hypertare.protocol import plan


class DeferSettings(Settings):
    """Empty polls before the interrupt is switched on again, and nanoseconds to a timer's poll."""

    polls: Count
    flush_timeout_ns: Annotated[int, Field(ge=0, le=(1 << 63) - 1)]


DEFER_HARD_IRQS = KnobKind[DeferSettings](
    name="defer_hard_irqs",
    place="interface",
    is_of_interface=True,
    commands={
        "polls": of_interface("napi_defer_hard_irqs"),
        "flush_timeout_ns": of_interface("gro_flush_timeout", "In nanoseconds."),
    },
    for_own_machines=True,
    for_agent=lambda level, target: [
        plan.DeferHardIrqs(
            interface=target.interface, polls=level.polls, flush_timeout_ns=level.flush_timeout_ns
        )
    ],
)
