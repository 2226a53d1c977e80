"""`knobs.dev_weight`: packets that a CPU takes from its backlog in one go at most."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from hypertare.knobs.knob import KnobKind
from hypertare.platforms.commands import sysctls
from hypertare.protocol import plan

BacklogWeight = Annotated[int, Field(ge=1, le=(1 << 31) - 1)]


DEV_WEIGHT = KnobKind[int](
    name="dev_weight",
    place="interface",
    commands={"": sysctls(("net.core.dev_weight",))},
    for_own_machines=True,
    for_agent=lambda level, _: [plan.DevWeight(packets=level)],
)
