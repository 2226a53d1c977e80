"""What a PC must be for a platform."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class PcClass:
    """Platforms that need another hypervisor, image or CPU need a PC of another class.

    `profile` is its image's. A boot takes about `boot_s` seconds of this host, and `guest_boot_s` more a
    guest. Where it `has_guests`, the node `host` moves their packets (it is Xen's driver domain, or
    KVM's host) and is no baseline. `modules` are those that its kernel loads beside what its devices
    need. `own_memory`, in bytes, is what it takes without its guests, `guest_overhead` what each guest
    takes beside its own memory. With a `has_driver_domain` that has memory of its own, and the
    hypervisor a scheduler. A host that `unpacks_programs` has the archive of those that its guests see.
    Where it `takes_kernel_args`, its kernel is under test and has the study's.
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
