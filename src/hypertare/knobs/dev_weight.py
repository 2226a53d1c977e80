"""`knobs.dev_weight`: packets that a CPU takes from its backlog in one go at most."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

from pydantic import Field

from hypertare.knobs.knob import KnobKind, Target
from hypertare.platforms.commands import sysctls
from hypertare.protocol import plan

BacklogWeight = Annotated[int, Field(ge=1, le=(1 << 31) - 1)]


class DevWeight(KnobKind[int]):
    name = "dev_weight"
    place = "interface"
    commands = {"": sysctls(("net.core.dev_weight",))}
    for_own_machines = True

    def for_agent(self, level: int, target: Target) -> Iterator[plan.Knob]:
        yield plan.DevWeight(packets=level)


DEV_WEIGHT = DevWeight()
