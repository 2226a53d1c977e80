"""`knobs.ksm`: same-page merging by the machine below a guest."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field, model_validator

from hypertare.base.closed import Settings
from hypertare.knobs.knob import Count, KnobKind
from hypertare.platforms.commands import Entry, KnobChange, of_memory
from hypertare.protocol import plan


class KsmSettings(Settings):
    """Same-page merging; true or false alone is `run`. What is not given stays as it is."""

    run: bool = True
    pages_to_scan: Annotated[int, Field(ge=1, le=(1 << 31) - 1)] | None = None
    sleep_ms: Count | None = None

    @model_validator(mode="before")
    @classmethod
    def _short(cls, given: Any) -> Any:
        return {"run": given} if isinstance(given, bool) else given


def _typed_run(change: KnobChange) -> Entry:
    """0 alone would leave merged pages merged."""
    made = of_memory("ksm/run", "host", "2 takes apart what was merged, and stops it.")
    number = {"true": "1", "false": "2"}
    return made(change.shown(lambda text: number.get(text, text)))


KSM = KnobKind[KsmSettings](
    name="ksm",
    place="below",
    commands={
        "": _typed_run,
        "run": _typed_run,
        "pages_to_scan": of_memory("ksm/pages_to_scan", "host"),
        "sleep_ms": of_memory("ksm/sleep_millisecs", "host"),
    },
    for_own_machines=True,
    for_agent=lambda level, _: [plan.Ksm(**level.model_dump())],
)
