"""`knobs.thp` and `knobs.host_thp`: huge pages of the kernel that the work runs on and of the one below."""

from __future__ import annotations

from typing import Any

from pydantic import model_validator

from hypertare.base.closed import Settings
from hypertare.knobs.knob import Count, KnobKind, Place
from hypertare.platforms.commands import Where, of_memory
from hypertare.protocol import plan


class ThpSettings(Settings):
    """Transparent huge pages; a text alone is `enabled`. What is not given stays as it is."""

    enabled: plan.ThpEnabled
    defrag: plan.ThpDefrag | None = None
    scan_sleep_ms: Count | None = None

    @model_validator(mode="before")
    @classmethod
    def _short(cls, given: Any) -> Any:
        return {"enabled": given} if isinstance(given, str) else given


def kind_of(name: str, place: Place, where: Where | None = None) -> KnobKind[ThpSettings]:
    """The knob of one of the kernels; `where` is the machine that is not the one under test."""
    folder = "transparent_hugepage"
    enabled = of_memory(f"{folder}/enabled", where)
    return KnobKind(
        name=name,
        place=place,
        commands={
            "": enabled,
            "enabled": enabled,
            "defrag": of_memory(f"{folder}/defrag", where),
            "scan_sleep_ms": of_memory(f"{folder}/khugepaged/scan_sleep_millisecs", where),
        },
        for_own_machines=True,
        for_agent=lambda level, _: [plan.Thp(**level.model_dump())],
    )


THP = kind_of("thp", "kernel")


HOST_THP = kind_of("host_thp", "below", "host")
