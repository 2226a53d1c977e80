"""The `[search]` table of a study. No I/O, no libraries."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, model_validator

from hypertare.base.quantities import Duration, Rate, Share
from hypertare.base.settings import Settings

LOSS_FREE_RATE = "loss_free_rate"


GOAL = "search.loss"
"""The goal, as a level of the cell: one search answers for each."""


class SearchSettings(Settings):
    """A search for the highest rate that loses no more than a goal, for each goal in `loss` (shares).

    `over` names factors: each combination of their levels is searched, on each of `platforms`. `low`
    and `high` are the ends of the rates in b/s; without `high` it is what the sender can send at all.
    The bounds found are at most `width` apart, as a share of the upper one. One trial takes
    `duration`; trials of `sum` seconds decide about a rate, and it is too high if more than the share
    `exceed` of them lost more than the goal. With `only` the study's own cells are not run.
    """

    workload: str
    over: tuple[str, ...] = ()
    platforms: tuple[str, ...] | None = None
    low: Rate | None = None
    high: Rate | None = None
    loss: tuple[Share, ...] = (0.0, 0.005)
    width: Share = 0.02
    duration: Duration = 1.0
    sum: Duration = 3.0
    exceed: Share = 0.5
    most_trials: Annotated[int, Field(ge=5, le=10_000)] = 80
    only: bool = False

    @model_validator(mode="after")
    def _fits(self) -> SearchSettings:
        if not self.loss or not all(0 <= share < 1 for share in self.loss):
            raise ValueError("'loss' needs one share or more, from 0 to below 1")
        if len(set(self.loss)) != len(self.loss) or len(set(self.over)) != len(self.over):
            raise ValueError("nothing may stand twice in 'loss' or in 'over'")
        if not 1e-4 <= self.width <= 0.5:
            raise ValueError("'width' lies from 0.01 % to 50 %")
        if not 0 <= self.exceed < 1:
            raise ValueError("'exceed' is a share from 0 to below 1")
        if not 0 < self.duration <= self.sum:
            raise ValueError("'duration' must be above 0, and 'sum' at least as long")
        if not all(rate is None or rate > 0 for rate in (self.low, self.high)):
            raise ValueError("'low' and 'high' must be above 0")
        if self.low is not None and self.high is not None and self.low >= self.high:
            raise ValueError("'low' must be below 'high'")
        return self
