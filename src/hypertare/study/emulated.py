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
    """The PC that `machine = "emulated"` is; what is under test on it stands in `sut`."""

    shift: Annotated[int, Field(ge=0, le=10)] = 3
    """An instruction takes 2^shift ns of virtual time ([effect](virtual-time.md#how-fast-it-is)).
    """
    quantum: Quantum = 2e-6
    """The virtual time that CPUs at work may be apart ([effect](virtual-time.md#several-cpus))."""
    walks: Annotated[str, Field(min_length=1)] = NONE
    """The processor whose [TLB misses and page walks](virtual-time.md#tlb-misses-and-page-walks) take its
    time: a name (`hypertare walk --list-processors`), or a TOML file beside the study. Not with `[walk]`.
    """
    cache_share: Annotated[Share, Field(gt=0, le=1)] = 0.25
    """The share of that processor's caches that page tables may hold."""
    walk_cost: Annotated[float, Field(ge=0.1, le=10)] = 1.0
    """A factor of the cycles of its look-ups and references, rounded to whole cycles: 0.1 to 10."""
    limit: Annotated[Duration, Field(ge=1)] = 3600.0
    """The longest time of a boot with all its trials, in the machine's time."""
    host_limit: Annotated[Duration, Field(gt=0)] = 900.0
    """The longest time of a boot with all its trials, in this host's time."""

    @property
    def instruction_s(self) -> float:
        """How long an instruction takes."""
        return (1 << self.shift) * 1e-9

    @property
    def walks_take_time(self) -> bool:
        return self.walks != NONE
