"""`[emulated]`: the PC in virtual time."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from hypertare.base.quantities import Duration, Share, between
from hypertare.base.settings import Settings
from hypertare.walk.processors import NONE

Quantum = Annotated[Duration, between(1e-9, 10e-3, "1 ns to 10 ms of virtual time")]
"""How far CPUs may be apart."""


class Emulated(Settings):
    """The PC that `machine = "emulated"` is; what is under test on it stands in `sut`.

    An instruction takes 2^`shift` ns of virtual time. CPUs that work at the same time are at most
    `quantum` of it apart. `walks`: the processor whose TLB misses and page walks take its time, by name or
    file, or `none`; `cache_share`: of its caches, what page tables may hold; `walk_cost`: its look-ups and
    references take so many times their cycles. `limit` is in the machine's own time, for one boot with all
    its trials; `host_limit` in the host's.
    """

    shift: Annotated[int, Field(ge=0, le=10)] = 3
    quantum: Quantum = 2e-6
    walks: Annotated[str, Field(min_length=1)] = NONE
    cache_share: Annotated[Share, Field(gt=0, le=1)] = 0.25
    walk_cost: Annotated[float, Field(ge=0.1, le=10)] = 1.0
    limit: Annotated[Duration, Field(ge=1)] = 3600.0
    host_limit: Annotated[Duration, Field(gt=0)] = 900.0

    @property
    def walks_take_time(self) -> bool:
        return self.walks != NONE
