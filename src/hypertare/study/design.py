"""`[design]`: how many trials."""

from __future__ import annotations

import math
from typing import Annotated

from pydantic import Field, model_validator

from hypertare.base.quantities import Duration, Share, between
from hypertare.base.settings import Settings
from hypertare.stats.practical import THRESHOLD

_TOO_FEW_BOOTS = 2


class DesignSettings(Settings):
    """How many trials, and when to stop. `trials_per_boot`: a round of so many cells that a machine would
    have more trials in one boot is cut into several boots; all blocks of a cell stay in one of them.
    """

    warmup: Annotated[int, Field(ge=0)] = 1
    min_trials: Annotated[int, Field(ge=2)] = 5
    max_trials: Annotated[int, Field(ge=2)] = 30
    precision: Annotated[Share, between(1e-6, 1, "0.0001% to 100%")] = 0.02
    of_cost: Annotated[Share, between(0, 0.5, "0% to 50%")] = 0.0
    of_noise: Annotated[Share, between(0, 1, "0% to 100%")] = 0.0
    time_limit: Annotated[Duration, between(0.1, 31_536_000, "100 ms to 8760h (a year)")] = 600.0
    blocks_per_boot: Annotated[int, Field(ge=1)] = 2
    trials_per_boot: Annotated[int, Field(ge=1)] | None = None
    min_boots: Annotated[int, Field(ge=1)] = 3
    threshold: Annotated[Share, between(0, 1, "0% to 100%")] = THRESHOLD

    @property
    def blocks_of_a_boot(self) -> int:
        """Blocks between two boots by the wall clock: so many that a whole run has one boot, or three and
        more. Two that differ say nothing of how much boots differ: one degree of freedom.
        """
        if math.ceil(self.max_trials / self.blocks_per_boot) != _TOO_FEW_BOOTS:
            return self.blocks_per_boot
        return self.max_trials // 3 or self.max_trials

    @model_validator(mode="after")
    def _ordered(self) -> DesignSettings:
        if self.max_trials < self.min_trials:
            raise ValueError("'max_trials' must be at least 'min_trials'")
        return self
