"""What a kind of machine is, as a study and its design see it.

Each has one file beside this one, and stands in `registry.py`. Nothing else asks which one a machine is:
it asks for one of these facts. How one is run is in `hypertare.engine.runners`.
"""

from __future__ import annotations

from typing import ClassVar

from hypertare.machine_kinds.clock import ClockName
from hypertare.platforms.registry import PlatformName
from hypertare.protocol.plan import NicModel


class MachineKind:
    """A kind of machine; what is said here holds unless its own file says otherwise."""

    name: ClassVar[str]
    clocks: ClassVar[tuple[ClockName, ...]]
    """The first is the one that it has unless another is named."""
    usual_platforms: ClassVar[tuple[PlatformName, ...]]
    """Those that a study has if it names none."""
    own_tables: ClassVar[tuple[str, ...]] = ()
    """Tables of a study that are about it."""

    is_this_host: ClassVar[bool] = False
    """It can be looked at, and its settings may be changed for a run."""
    is_sandboxed: ClassVar[bool] = False
    """Benches stand in a sandbox on a host that somebody has, beside what else it does; its settings are
    left alone, or changed for a run.
    """
    has_work_directory: ClassVar[bool] = False
    """Commands there find its own programs, and a copy of the work directory."""
    is_reached: ClassVar[bool] = False
    """It is elsewhere, and `[remote]` says how ssh reaches it."""
    boots_whole_pcs: ClassVar[bool] = False
    """Each bench is a boot of a PC that is made for it: with the image, NICs, CPU and hypervisor that the
    study asks for, and a plan that is decided on before."""
    is_virtual: ClassVar[bool] = False
    """A hypervisor gives it its hardware."""
    is_slowed_by_host: ClassVar[bool] = False
    """By the wall clock it is as slow as its host is busy."""
    draws_chance: ClassVar[bool] = False
    """What differs between two boots of a real machine by chance is drawn from a seed."""

    guests_have_kvm: ClassVar[bool] = False
    """It brings a host of KVM for its guests; elsewhere the accelerator says what they have."""
    weighs_guests: ClassVar[bool] = False
    """Guests of QEMU can have a weight of their cgroup."""
    line_counts_frames: ClassVar[bool] = False
    """A line of a limited rate is a NIC's timer, by which each frame takes the time of a full one;
    elsewhere it is a token bucket, which counts bytes."""
    line_nic: ClassVar[NicModel | None] = None
    """The only one that keeps to a line's rate; none where that is not up to the NIC."""
