"""`neighbours`: what the guests do that are there to disturb the one that is measured."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, Field, model_validator

from hypertare.base.closed import Settings
from hypertare.base.quantities import Rate, Share, Size


def _above_none(share: float) -> float:
    if not 0 < share <= 1:
        raise ValueError("a share lies above 0 and at most at 1 (100 %)")
    return share


CpuShare = Annotated[Share, AfterValidator(_above_none)]


class NeighbourSettings(Settings):
    """What the other guests do while one is measured: burn a share of a CPU, stream to or from their
    peers, or both.

    `rate` is the payload of all their streams together, so that it loads the line alike whether there are
    one or seven of them; without it each goes as fast as it can. `measured` is the number of the guest that
    they leave to be measured, from 1 in the order in which guests are made.
    """

    share: CpuShare | None = None
    stream: Literal["transmit", "receive"] | None = None
    rate: Annotated[Rate, Field(gt=0)] | None = None
    socket_buffer: Annotated[Size, Field(ge=1)] | None = None
    measured: Annotated[int, Field(ge=1)] = 1

    @model_validator(mode="after")
    def _something(self) -> NeighbourSettings:
        if self.share is None and self.stream is None:
            raise ValueError("the neighbours do nothing: give them a 'share', a 'stream' or both")
        of_streams = [name for name in ("rate", "socket_buffer") if getattr(self, name) is not None]
        if of_streams and self.stream is None:
            raise ValueError(
                f"'{of_streams[0]}' is of the neighbours' streams: give them a 'stream', or leave it out"
            )
        return self
