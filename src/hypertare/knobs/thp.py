"""`knobs.thp`: transparent huge pages of the kernel that the work runs on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from pydantic import model_validator

from hypertare.base.settings import Settings
from hypertare.knobs.knob import Count, KnobKind, Place, Target
from hypertare.platforms.commands import Maker, Where, of_memory
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


def typed(where: Where | None = None) -> Mapping[str, Maker]:
    """The commands; `where` is the machine that is not the one under test."""
    folder = "transparent_hugepage"
    enabled = of_memory(f"{folder}/enabled", where)
    return {
        "": enabled,
        "enabled": enabled,
        "defrag": of_memory(f"{folder}/defrag", where),
        "scan_sleep_ms": of_memory(f"{folder}/khugepaged/scan_sleep_millisecs", where),
    }


class Thp(KnobKind[ThpSettings]):
    name = "thp"
    place: ClassVar[Place] = "kernel"
    commands = typed()
    for_own_machines = True

    def for_agent(self, level: ThpSettings, target: Target) -> Iterator[plan.Knob]:
        yield plan.Thp(**level.model_dump())


THP = Thp()
