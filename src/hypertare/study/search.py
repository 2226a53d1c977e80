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
    """A search for the highest rate that loses no more than a goal, for each goal. Rates are in b/s."""

    workload: str
    """A UDP stream, whose `rate` and `duration` the search sets."""
    over: tuple[str, ...] = ()
    """Factors: each combination of their levels is searched. Others have the study's value outside
    `[factors]`.
    """
    platforms: tuple[str, ...] | None = None
    """The platforms. Default: the study's."""
    low: Rate | None = None
    """The lowest rate. Default: 1/10,000 of `high`."""
    high: Rate | None = None
    """The highest rate. Default: what the sender sends unpaced, measured first."""
    loss: tuple[Share, ...] = (0.0, 0.005)
    """Goals: fractions that may be lost, each with a rate of its own."""
    width: Share = 0.02
    """The distance between the rate found and the next that loses more, at most; as a share of the latter.
    """
    duration: Duration = 1.0
    """The length of one trial, with what `omit` leaves out."""
    sum: Duration = 3.0
    """Seconds of trials that decide about a rate, fewer where more could change nothing."""
    exceed: Share = 0.5
    """A rate is too high when more of its trials' seconds than this lost more than the goal."""
    most_trials: Annotated[int, Field(ge=5, le=10_000)] = 80
    """Trials of each setting at most; then the bounds so far are reported. `design.time_limit` does not
    end it.
    """
    only: bool = False
    """`true`: the study's own cells are not run."""

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
