"""`[design]`: how many trials."""

from __future__ import annotations

import math
from typing import Annotated

from pydantic import Field, model_validator

from hypertare.base.closed import Settings
from hypertare.base.quantities import Duration, Share, between
from hypertare.stats.practical import THRESHOLD

_TOO_FEW_BOOTS = 2


class DesignSettings(Settings):
    """How many trials, and when to stop."""

    warmup: Annotated[int, Field(ge=0)] = 1
    """Runs of each command after each boot that are not counted."""
    min_trials: Annotated[int, Field(ge=2)] = 5
    """Blocks of each cell, at least: a block is one trial on every platform, in random order (`--seed`).
    """
    max_trials: Annotated[int, Field(ge=2)] = 30
    """Blocks of each cell, at most."""
    precision: Annotated[Share, between(1e-6, 1, "0.0001% to 100%")] = 0.02
    """Half-width of the interval on the main response's cost at which a cell is finished."""
    of_cost: Annotated[Share, between(0, 0.5, "0% to 50%")] = 0.0
    """A cell is also finished at this share of the cost itself ([how](method.md#enough-trials); `weigh`:
    20%).
    """
    of_noise: Annotated[Share, between(0, 1, "0% to 100%")] = 0.0
    """A cell is also finished at this share of how much the baseline differs from block to block (`weigh`:
    100%).
    """
    time_limit: Annotated[Duration, between(0.1, 31_536_000, "100 ms to 8760h (a year)")] = 600.0
    """No block begins after this time."""
    blocks_per_boot: Annotated[int, Field(ge=1)] = 2
    """Blocks after which the bench is made anew, unless nothing boots and there is only one bench."""
    trials_per_boot: Annotated[int, Field(ge=1)] | None = None
    """Trials of one boot at most: a longer round is cut into several boots, and all blocks of a cell stay
    in one.
    """
    min_boots: Annotated[int, Field(ge=1)] = 3
    """Boots before a cell is finished, where anything boots."""
    threshold: Annotated[Share, between(0, 1, "0% to 100%")] = THRESHOLD
    """A cost below this is of no practical size."""

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
