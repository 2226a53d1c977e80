"""`[design]`: how many trials."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, model_validator

from hypertare.quantities import Duration, Share
from hypertare.study.settings import Settings


class DesignSettings(Settings):
    """How many trials, and when to stop."""

    warmup: Annotated[int, Field(ge=0)] = 1
    min_trials: Annotated[int, Field(ge=2)] = 5
    max_trials: Annotated[int, Field(ge=2)] = 30
    precision: Share = 0.02
    time_limit: Duration = 600.0
    blocks_per_boot: Annotated[int, Field(ge=1)] = 2
    min_boots: Annotated[int, Field(ge=1)] = 3
    threshold: Share = 0.0

    @model_validator(mode="after")
    def _ordered(self) -> DesignSettings:
        if self.max_trials < self.min_trials:
            raise ValueError("'max_trials' must be at least 'min_trials'")
        if not self.precision > 0:
            raise ValueError("'precision' must be above 0")
        return self
