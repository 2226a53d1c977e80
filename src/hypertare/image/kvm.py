"""What a machine that is a host of KVM has for its guests: their kernel and initramfs, in its own."""

from __future__ import annotations

from hypertare.image import cpio
from hypertare.image.xen import loadable

GUEST_KERNEL = "kvm/kernel"
GUEST_INITRAMFS = "kvm/initramfs"
"""Paths on the machine."""


def members(vmlinux: bytes, guest: list[cpio.Member]) -> list[cpio.Member]:
    """The files that guests boot from.

    Raises:
        MachineError: the kernel is none that can be loaded.
    """
    files = {GUEST_KERNEL: loadable(vmlinux), GUEST_INITRAMFS: cpio.archive(guest)}
    return [cpio.file(path, data) for path, data in files.items()]
