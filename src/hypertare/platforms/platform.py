"""What a platform is: the node of a platform on a bench, its properties, and the classes of emulated PCs.

Each platform has one file beside this one and an entry in `registry.py`. Other modules never compare
platforms; they use the properties below.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from hypertare.protocol import plan


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
    - `kernel_args`: what its kernel is given; None where that is under test and gets the study's arguments.
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
    kernel_args: tuple[str, ...] | None = None


PC = PcClass("pc", "emulated", boot_s=4.5)
"""It has no guest, not even an idle one."""


Nic = Literal["the machine's", "modelled", "paravirtual"]
"""Kinds of a platform's NIC. For `modelled` the VMM is given a model and a MAC address."""

Typed = Literal["host", "container", "guest"]
"""Where a person types a command."""


@dataclass(frozen=True)
class NodeInputs:
    """The settings and resources from which a platform makes its node.

    - `boots_from`: a kernel and an initramfs, if the node boots one.
    - `reach`: the words of the ssh command that reaches a given machine.
    - `may_be_set`: the settings of a given machine may be changed.
    - `outside`: the process of this host in which a given machine runs, if it is known.
    - `inner_seed`: the seed of the emulated machine whose guest the node is.
    - `injects_once`: that machine's processor gives a guest an interrupt once and not twice.
    - `tsc`: how a guest of Xen reads the time-stamp counter.
    """

    cpus: int
    memory: int
    boot_limit_s: float
    accelerator: plan.Accelerator
    settings: plan.GuestSettings
    boots_from: tuple[Path, Path] | None = None
    reach: tuple[str, ...] = ()
    may_be_set: bool = False
    outside: int | None = None
    shared_memory: int | None = None
    inner_seed: int | None = None
    injects_once: bool = False
    tsc: plan.TscMode = "native"

    @property
    def kernel(self) -> Path:
        assert self.boots_from is not None
        return self.boots_from[0]

    @property
    def initramfs(self) -> tuple[Path, ...]:
        assert self.boots_from is not None
        return self.boots_from[1:]


@dataclass(frozen=True, eq=False, kw_only=True)
class Platform:
    """A platform. The values here are defaults."""

    name: str

    is_baseline: bool = False
    """All others are compared with it."""
    is_made: bool = True
    """hypertare makes it, and knows what it made. Else it was there before, and may be another machine."""
    is_host: bool = False
    """Whether it is the node `host` itself, whose single kernel does the work of all guests."""

    # --- kernel
    has_own_kernel: bool = False
    """A kernel boots for it, with counters and settings that are no part of this host's."""
    image: str | None = None
    """Profile of the image that it boots from on this host."""
    least_memory: int = 0
    """Bytes with which it boots."""
    least_memory_of: str = ""
    """Words for an error: the part of the platform that needs this memory."""
    own_settings: frozenset[str] = frozenset()
    """Settings of `sut` that no other platform has: as factors they make several systems under test on one
    bench, not several benches."""
    hypervisor_settings: frozenset[str] = frozenset()
    """Settings of `sut` that are its hypervisor's, or given by that. A platform without them may have their
    levels in its cells, to stand beside those that have them: it is the same at each."""

    # --- hypervisor
    uses_accelerator: bool = False
    """QEMU runs it, by KVM or TCG."""
    under_hypervisor: bool = False
    """A hypervisor lies below the node `host` too, which is its driver domain. It says what runs on which
    CPU, and what CPU time each domain had: no kernel sees all of it."""
    is_counted_by_kvm: bool = False
    weighted_by: Literal["hypervisor", "cgroups"] | None = None
    """Who shares CPUs out by weight, if somebody does; cgroups a bench must be made with."""
    is_seen_from_outside: bool = True
    """Its CPU time is counted apart from that of the machine below it."""

    # --- memory
    is_backed_by_host: bool = False
    """Its memory is that of processes of the host's kernel, which may give it huge pages or merge some."""
    translates_twice: bool = False
    """Addresses go through its own page tables and those of its host."""

    # --- files and packets
    sees_host_files: bool = True
    """On this host its commands find this host's programs."""
    runs_images: bool = False
    """It can run an image of a container engine."""
    packets_moved_by_host: bool = False
    """What it sends passes the kernel of the node `host`, which may drop it, and CPU time there."""
    nic: Nic = "the machine's"
    has_guests_as_peers: bool = False
    """Its peers may be guests like itself."""

    # --- what it needs, and people read
    pc: PcClass = PC
    """The class of PC that an emulated machine is for it."""
    settings_typed_at: Typed
    kernel_typed_at: Typed
    """Where a user types commands that change settings of its kernel."""
    shares_memory: bool = False
    """Its node can have memory in common with the machine that it is on, for frames past its card."""
    has_disk: bool = True
    """Its node can have a disk of its own."""
    has_disk_of_file: bool = True
    """A file can be what its disk stands on, and not a block device alone."""
    unlike_by_datapath: Mapping[plan.Datapath, str] = field(default_factory=dict)
    """How its network on this host differs from what people have, by what moves its packets."""
    caveat_of_baseline: str | None = None
    """A warning about the baseline of this host, if this platform is in the study; else None."""
    node: Callable[[NodeInputs], plan.NodeKind]
    """Makes the kind of its node in a plan."""
