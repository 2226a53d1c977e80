"""The input of a search, trial by trial, and its result."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hypertare.runs.summary import RateBound, SearchState


@dataclass(frozen=True)
class Measured:
    """A trial of a search.

    `rate` is the requested rate in b/s, None for an unpaced sender. `sent` is the rate that was sent,
    `loss` the share of it that did not arrive. `error` is the reason of a failure, else None.
    """

    rate: float | None
    sent: float = 0.0
    loss: float = 0.0
    error: str | None = None


@dataclass(frozen=True)
class Need:
    """The next trial, the `replicate`-th at its rate, from 0."""

    rate: float | None
    replicate: int


@dataclass(frozen=True)
class Found:
    """What a search says of one goal: MLRsearch's relevant bounds and its conditional throughput.

    `sender`: no more than the goal allows was lost of anything, but the sender could not send faster.
    `good_above` is the highest rate above the upper bound that its trials found good,
    `bad_below` how many trials at or below the lower bound lost more than the goal.
    """

    goal: float
    state: SearchState
    lower: RateBound | None = None
    upper: RateBound | None = None
    throughput: float | None = None
    sender: bool = False
    good_above: float | None = None
    bad_below: int = 0


@dataclass(frozen=True)
class Search:
    """A search as far as its trials go. `need` is none at its end; `reason` says why it failed."""

    need: Need | None
    found: tuple[Found, ...]
    trials: int
    low: float | None = None
    high: float | None = None
    reason: str | None = None
