"""`[emulated]`: the PC in virtual time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from hypertare.base.closed import Settings
from hypertare.base.quantities import Duration, Share, between
from hypertare.base.units import human_size
from hypertare.knobs.registry import HOST_KNOBS
from hypertare.walk.processors import NONE

if TYPE_CHECKING:
    from hypertare.study.study import Study

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


# --- rules


LEAST_EMULATED = 128 << 20
"""Bytes with which the distribution's kernel boots and a stream runs."""


MOST_VIRTUAL_CPUS = 8
"""The emulator has not been tried with more."""


def fits_the_machine(study: Study) -> None:
    """Its clock, memory and CPUs are those that the machine can have."""
    machine = study.machine_kind
    if study.clock not in machine.clocks:
        raise ValueError(
            f"the machine '{study.machine}' has no {study.clock} clock: "
            f"it has {' or '.join(machine.clocks)}"
        )
    if not machine.boots_whole_pcs:
        # What is of the whole machine is not set on this host.
        for name in HOST_KNOBS:
            if getattr(study.knobs, name) is not None:
                raise ValueError(
                    f"knobs.{name} is a setting of the whole machine below the guests, here "
                    f"{'of a host elsewhere' if machine.is_reached else 'of this host'}, which is "
                    "left alone: take machine = 'emulated', or set it yourself"
                )
        return
    if not study.under_hypervisor and study.sut.memory < LEAST_EMULATED:
        raise ValueError(
            f"sut.memory is {human_size(study.sut.memory)}, but an emulated machine needs "
            f"{human_size(LEAST_EMULATED)}: its kernel would not fit, or end in a loop"
        )
    if study.clock_kind.counts_instructions and study.sut.cpus > MOST_VIRTUAL_CPUS:
        raise ValueError(
            f"sut.cpus is {study.sut.cpus}, but in virtual time a machine has 1 to {MOST_VIRTUAL_CPUS}: "
            "ask for fewer, or for clock = 'wall'"
        )


def walks_can_take_time(study: Study) -> None:
    """Of a processor that is emulated; a real one takes its own."""
    if not study.emulated.walks_take_time:
        if study.emulated.walk_cost != 1:
            raise ValueError(
                f"emulated.walk_cost is {study.emulated.walk_cost:g}, but page walks take no time here: "
                "name a processor with emulated.walks, or leave it out"
            )
        return
    if not study.clock_kind.counts_instructions:
        raise ValueError(
            f"emulated.walks is '{study.emulated.walks}', but only in virtual time (machine = 'emulated') "
            "page walks are emulated: by the wall clock this host's own are in all figures; leave it out"
        )
    if study.walk is not None:
        raise ValueError(
            f"[walk] adds modelled page walks to elapsed time, and with emulated.walks = "
            f"'{study.emulated.walks}' they are in it: leave one of the two out"
        )
