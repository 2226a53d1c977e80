"""What a kind of machine is, as a study and its design see it, and the clocks of machines.

Other modules never compare kinds; they use the properties below. `hypertare.engine.runners` holds the
code that runs a kind.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from hypertare.platforms.registry import PlatformName
from hypertare.protocol.plan import NicModel

ClockName = Literal["wall", "virtual"]
"""As `clock` of a study has them."""


@dataclass(frozen=True)
class Clock:
    """A clock of a machine.

    With a clock that `repeats`, the same plan gives the same records, whatever else the host does. So known
    records are not measured again, and several machines may run at once. A clock that `counts_instructions`
    gives every instruction the same time: costs of hardware, such as page walks, are not in it.
    """

    name: ClockName
    repeats: bool
    counts_instructions: bool


CLOCKS: dict[str, Clock] = {
    clock.name: clock
    for clock in (
        Clock("wall", repeats=False, counts_instructions=False),
        Clock("virtual", repeats=True, counts_instructions=True),
    )
}


@dataclass(frozen=True, eq=False, kw_only=True)
class MachineKind:
    """A kind of machine. The values here are defaults."""

    name: str
    clocks: tuple[ClockName, ...]
    """The clocks that it can have; the first is the default."""
    usual_platforms: tuple[PlatformName, ...]
    """Those that a study has if it names none."""
    own_tables: tuple[str, ...] = ()
    """Tables of a study that are about it."""

    is_this_host: bool = False
    """Whether it is this host: hypertare can check it, and a run may change its settings."""
    is_sandboxed: bool = False
    """Whether benches stand in a sandbox, on a host that also does other work.

    The host's settings are left alone, or changed for the time of a run.
    """
    has_work_directory: bool = False
    """Commands there find its own programs, and a copy of the work directory."""
    is_reached: bool = False
    """It is elsewhere, and `[remote]` says how ssh reaches it."""
    boots_whole_pcs: bool = False
    """Each bench is a boot of a PC that is made for it: with the image, NICs, CPU and hypervisor that the
    study asks for, and a plan that is decided on before."""
    is_virtual: bool = False
    """A hypervisor gives it its hardware."""
    is_slowed_by_host: bool = False
    """By the wall clock it is as slow as its host is busy."""
    draws_chance: bool = False
    """Whether a seed decides the properties in which two boots of a real machine differ by chance."""

    guests_have_kvm: bool = False
    """It brings a host of KVM for its guests; elsewhere the accelerator says what they have."""
    weighs_guests: bool = False
    """Guests of QEMU can have a weight of their cgroup."""
    line_counts_frames: bool = False
    """A line of a limited rate is a NIC's timer, by which each frame takes the time of a full one;
    elsewhere it is a token bucket, which counts bytes."""
    line_nic: NicModel | None = None
    """The only NIC model that keeps to a line's rate; None if the rate does not depend on the NIC."""
