"""The `[predictability]` table of a study. No I/O, no libraries."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from hypertare.base.quantities import Share
from hypertare.base.settings import Settings

LawName = Literal[
    "fair rate",
    "driver domain CPU",
    "loaded rate",
    "loaded rate, guest alone",
    "universal scalability law",
]
"""Those of `hypertare.stats.laws`."""

Number = Annotated[int, Field(ge=1)]


class PredictabilitySettings(Settings):
    """Whether laws predict what more guests do."""

    error: Annotated[Share, Field(gt=0)] = 0.1
    """The largest error that is still "predictable"."""
    held_out: tuple[Number, ...] = ()
    """Numbers of guests that no law is fitted to. Default, and if the run has none of them: the largest.
    """
