"""The `[predictability]` table of a study. No I/O, no libraries."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from hypertare.base.quantities import Share

LawName = Literal[
    "fair rate",
    "driver domain CPU",
    "loaded rate",
    "loaded rate, guest alone",
    "universal scalability law",
]
"""Those of `hypertare.stats.laws`."""

Number = Annotated[int, Field(ge=1)]


class PredictabilitySettings(BaseModel):
    """`error`: the largest that is still predictable. `held_out`: numbers of guests that no law is
    fitted to; the largest of the run if none of them is in it.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    error: Annotated[Share, Field(gt=0)] = 0.1
    held_out: tuple[Number, ...] = ()
