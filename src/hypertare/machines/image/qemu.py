"""What a machine that runs guests of its own has beside its kernel: QEMU with its firmware.

All of it comes from the distribution's packages, unpacked and not installed. The guests' kernel and
initramfs lie in the machine's own, where QEMU finds them.
"""

from __future__ import annotations

from dataclasses import dataclass

from hypertare.base.arch import ARCH
from hypertare.base.errors import MachineError
from hypertare.machines.image import cpio
from hypertare.machines.image.cache import Cache, Entry, Progress
from hypertare.machines.image.userland import Userland, fetch_all
from hypertare.protocol.constants import VIRTIOFSD

_QEMU_VERSION = 2
"""Of what is taken from the packages; part of an image's key."""

_PACKAGES = (ARCH.qemu_package, "qemu-system-data", "seabios")
_OF_FILES = ("qemu-system-common", "libcap-ng0")
"""virtiofsd, and what it needs beyond QEMU. Nothing more: modules of QEMU's come in the same package, whose
libraries are many."""
_PROGRAMS = (f"usr/bin/{ARCH.qemu}", VIRTIOFSD.lstrip("/"))
_FIRMWARE = (
    "usr/share/seabios/bios-256k.bin",
    "usr/share/qemu/pvh.bin",
    "usr/share/qemu/linuxboot_dma.bin",
    "usr/share/qemu/kvmvapic.bin",
)
_FIRMWARE_DIRECTORY = "usr/share/qemu"


@dataclass(frozen=True)
class Qemu:
    """The packages that QEMU is taken from."""

    packages: tuple[Entry, ...]

    @classmethod
    def fetch(cls, cache: Cache, progress: Progress, refresh: bool) -> Qemu:
        """QEMU, fetched where it is not there.

        Raises:
            MachineError: it cannot be had.
        """
        packages = fetch_all(_PACKAGES, cache, progress, refresh)
        return cls((*packages, *fetch_all(_OF_FILES, cache, progress, refresh, lambda _: False)))

    @property
    def digest(self) -> list[str]:
        """For the key of an image: every package by its name, version and checksum."""
        return [str(_QEMU_VERSION), *sorted(entry.key for entry in self.packages)]

    @property
    def name(self) -> str:
        return f"QEMU {self.packages[0].facts['version']}"

    def members(self) -> list[cpio.Member]:
        """The programs with their libraries and firmware, where it looks for them.

        Raises:
            MachineError: a package lacks one.
            DamagedError: a file is not what was put there.
        """
        found = Userland(self.packages).members(_PROGRAMS)
        found.append(cpio.directory(_FIRMWARE_DIRECTORY))
        for path in _FIRMWARE:
            holder = next((entry for entry in self.packages if path in entry.digests), None)
            if holder is None:
                raise MachineError(f"None of the packages of {self.name} has {path}.")
            name = path.rpartition("/")[2]
            found.append(cpio.file(f"{_FIRMWARE_DIRECTORY}/{name}", holder.read(path)))
        return found
