"""`knobs.napi_budget`: what one softirq may take from all NICs."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from hypertare.base.settings import Settings
from hypertare.knobs.knob import Count, KnobKind
from hypertare.platforms.commands import sysctls
from hypertare.protocol import plan


class NapiBudgetSettings(Settings):
    """What one softirq may take; without `microseconds` the kernel's limit of time stays."""

    packets: Annotated[int, Field(ge=1, le=(1 << 31) - 1)]
    microseconds: Count | None = None


NAPI_BUDGET = KnobKind[NapiBudgetSettings](
    name="napi_budget",
    place="interface",
    commands={
        "packets": sysctls(("net.core.netdev_budget",)),
        "microseconds": sysctls(("net.core.netdev_budget_usecs",)),
    },
    for_own_machines=True,
    for_agent=lambda level, _: [
        plan.NapiBudget(packets=level.packets, microseconds=level.microseconds)
    ],
)
