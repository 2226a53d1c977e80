"""Classes of emulated PCs."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class PcClass:
    """A class of emulated PCs. Platforms that need different hypervisors, images or CPUs need different
    classes.

    - `profile`: the profile of its image.
    - `boot_s`, `guest_boot_s`: seconds of this host that a boot takes, and that each guest adds.
    - `has_guests`: the node `host` moves the packets of guests, as Xen's driver domain or as KVM's host,
      and is no baseline.
    - `modules`: kernel modules that it loads beside the drivers of its devices.
    - `own_memory`, `guest_overhead`: bytes that it takes without guests, and that each guest takes beside
      its own memory.
    - `has_driver_domain`: the driver domain has memory of its own, and the hypervisor a scheduler.
    - `unpacks_programs`: the host has the archive of its guests' programs.
    - `takes_kernel_args`: its kernel is under test and gets the study's arguments.
    """

    name: str
    profile: str
    boot_s: float
    guest_boot_s: float = 0.0
    has_guests: bool = False
    modules: tuple[str, ...] = ()
    own_memory: int = 0
    guest_overhead: int = 0
    has_driver_domain: bool = False
    unpacks_programs: bool = False
    takes_kernel_args: bool = True


PC = PcClass("pc", "emulated", boot_s=4.5)
"""It has no guest, not even an idle one."""
