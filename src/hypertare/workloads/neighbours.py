"""`neighbours`: what the guests do that are there to disturb the one that is measured."""

from __future__ import annotations

from typing import Literal

from pydantic import field_validator, model_validator

from hypertare.base.quantities import Share
from hypertare.base.settings import Settings


def a_share(share: float) -> float:
    """The share, if it is one of a CPU's time.

    Raises:
        ValueError: it is none.
    """
    if not 0 < share <= 1:
        raise ValueError("a share lies above 0 and at most at 1 (100 %)")
    return share


class NeighbourSettings(Settings):
    """What the other guests do while the first one is measured: burn a share of a CPU, stream to or
    from their peers, or both.
    """

    share: Share | None = None
    stream: Literal["transmit", "receive"] | None = None

    @field_validator("share")
    @classmethod
    def _in_range(cls, share: float | None) -> float | None:
        return None if share is None else a_share(share)

    @model_validator(mode="after")
    def _something(self) -> NeighbourSettings:
        if self.share is None and self.stream is None:
            raise ValueError("the neighbours do nothing: give them a 'share', a 'stream' or both")
        return self
