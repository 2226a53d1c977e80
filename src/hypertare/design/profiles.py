"""Profiles of an initramfs: its purpose, and its contents beside the agent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from hypertare.base.errors import InputError
from hypertare.knobs.traffic_classes import TRAFFIC_CLASSES
from hypertare.protocol.constants import NAPI_MODULE

DEFAULT_PROFILE = "guest"


GUEST_KERNEL = "guest/kernel"


GUEST_INITRAMFS = "guest/initramfs"
"""What the guests of a machine boot from, in its own initramfs."""


Vmm = Literal["xen", "qemu"]
"""What runs a machine's guests: Xen below it, or QEMU on it."""


@dataclass(frozen=True)
class Profile:
    """The contents of an initramfs and the machine that boots from it.

    `required` modules must exist in the kernel; of the `wanted` ones the initramfs holds those that exist.
    `own` are the project's own modules (`kernel/`), built where that is possible. `programs` are the
    programs that a command finds there. A machine with guests of its own holds its `vmm` and their kernel
    and initramfs, which is of the profile `guests`. With `paravirtual` the kernel is changed so that it
    boots quickly as a PV guest of Xen.
    """

    name: str
    required: tuple[str, ...]
    wanted: tuple[str, ...] = ()
    own: tuple[str, ...] = ()
    programs: tuple[str, ...] = ()
    vmm: Vmm | None = None
    guests: Profile | None = None
    paravirtual: bool = False
    directories: tuple[str, ...] = ("dev", "host", "modules", "proc", "run", "sys", "tmp")

    @property
    def all_own(self) -> tuple[str, ...]:
        """The project's own modules, its guests' among them."""
        guests = self.guests.own if self.guests else ()
        return tuple(dict.fromkeys((*self.own, *guests)))


DISKS = ("virtio_blk", "virtio_scsi", "sd_mod", "nvme", "ahci")
"""Drivers of the disks that a guest may have."""

FILES = ("9pnet_virtio", "9p", "virtiofs")
"""File systems by which a guest has a directory of its machine."""

GUEST = Profile(
    name="guest",
    required=("virtio_pci", "virtio_console"),
    wanted=(
        *("virtio_net", "e1000", "e1000e", "vmxnet3", "8139cp", "8139too", "pcnet32"),
        "virtio_mmio",
        *FILES,
        "overlay",
        *("af_packet", "veth", "bridge"),
        *("pvpanic", "pvpanic_pci"),
        *DISKS,
    ),
    own=(NAPI_MODULE,),
)

EMULATED = Profile(
    name="emulated",
    required=("virtio_pci", "virtio_console"),
    wanted=(
        *("virtio_net", "e1000", "e1000e", "vmxnet3", "8139cp", "pcnet32"),
        *("af_packet", "veth", "bridge"),
        "null_blk",
    ),
    own=(NAPI_MODULE,),
    programs=("hypertare-agent",),
)
"""A whole PC that carries out a plan by itself; the plan comes as a second archive."""

DOMAIN = Profile(
    name="domain",
    required=("xen_netfront",),
    wanted=("af_packet", "veth", "bridge", "xen_blkfront"),
    own=(NAPI_MODULE,),
    paravirtual=True,
)
"""A PV guest of Xen; its console is built in."""

XEN = Profile(
    name="xen",
    required=(
        *("virtio_pci", "virtio_console"),
        *("xen_evtchn", "xen_gntdev", "xen_gntalloc", "xen_privcmd", "xenfs", "xen_netback"),
        "bridge",
    ),
    wanted=(*EMULATED.wanted, "xen_blkback", *TRAFFIC_CLASSES.modules),
    own=EMULATED.own,
    vmm="xen",
    guests=DOMAIN,
)
"""The same PC under Xen, as its driver domain."""

INNER = Profile(
    name="inner",
    required=("virtio_pci", "virtio_console"),
    wanted=(*EMULATED.wanted, *DISKS, *FILES),
    own=EMULATED.own,
)
"""A guest of an emulated machine: it sees nothing of the host's files."""

KVM = Profile(
    name="kvm",
    required=(*EMULATED.required, "kvm_amd", "tun"),
    wanted=(*EMULATED.wanted, "vhost_net"),
    own=EMULATED.own,
    programs=EMULATED.programs,
    vmm="qemu",
    guests=INNER,
)
"""The same PC as a host of KVM."""

PROFILES = {profile.name: profile for profile in (GUEST, EMULATED, DOMAIN, XEN, KVM)}


def find_profile(name: str) -> Profile:
    """The profile of this name.

    Raises:
        InputError: there is none.
    """
    if name not in PROFILES:
        raise InputError(
            f"There is no image profile {name!r}.", f"Choose from: {', '.join(PROFILES)}."
        )
    return PROFILES[name]
