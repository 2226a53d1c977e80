"""What a machine under Xen has beside its kernel: the hypervisor, and the tools of its driver domain.

All of it comes from the distribution's packages, unpacked and not installed. The guests' kernel and
initramfs lie in the driver domain's own, where `xl create` finds them.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass

from hypertare.errors import MachineError
from hypertare.image import cpio
from hypertare.image.cache import Cache, Entry, Progress
from hypertare.image.userland import Userland, fetch_all, fetched_all

VERSION = 1
"""Of what is taken from the packages; part of an image's key."""

FILE = "xen"
"""The hypervisor in an image's cache entry."""

_VIF_SCRIPT = "xen/vif"
"""Path in the driver domain; the agent knows it."""

RELEASE = "4.17"
_HYPERVISOR_PACKAGE = f"xen-hypervisor-{RELEASE}-amd64"
_TOOL_PACKAGES = (f"xen-utils-{RELEASE}", "xenstore-utils", "libgcc-s1")
_PROGRAMS = f"usr/lib/xen-{RELEASE}/bin"
_TOOLS = ("xl", "xenstored", "xenconsoled", "xen-init-dom0", "libxl-save-helper")
_CLIENTS = tuple(f"usr/bin/xenstore-{verb}" for verb in ("read", "write", "ls"))
_LOADED = ("libgcc_s.so.1",)
"""By pthread_cancel, without which `xl` aborts."""

_DIRECTORIES = ("etc/xen", "var/lib/xen", "var/lib/xenstored", "var/log/xen")
_LARGEST = 64 << 20


@dataclass(frozen=True)
class Xen:
    """The packages that Xen is taken from."""

    hypervisor: Entry
    tools: tuple[Entry, ...]

    @property
    def digest(self) -> list[str]:
        """For the key of an image: every package by its name, version and checksum."""
        return [str(VERSION), self.hypervisor.key, *sorted(entry.key for entry in self.tools)]

    @property
    def held(self) -> tuple[Entry, ...]:
        return (self.hypervisor, *self.tools)

    @property
    def name(self) -> str:
        return f"Xen {self.hypervisor.facts['version']}"

    def kernel(self) -> bytes:
        """The hypervisor as a multiboot ELF file, which QEMU starts directly.

        Raises:
            MachineError: the package holds none that can be unpacked.
            DamagedError: it is not what was put there.
        """
        packed = self.hypervisor.read(f"boot/xen-{RELEASE}-amd64.gz")
        try:
            unpacked = zlib.decompressobj(wbits=31).decompress(packed, _LARGEST)
        except zlib.error as error:
            raise MachineError(f"The hypervisor of {self.name} is damaged: {error}.") from error
        if not unpacked.startswith(b"\x7fELF"):
            raise MachineError(f"The hypervisor of {self.name} is no ELF file.")
        return unpacked

    def members(self) -> list[cpio.Member]:
        """The tools with their libraries, under the paths that they expect.

        Raises:
            MachineError: a package lacks one.
            DamagedError: a file is not what was put there.
        """
        programs = [f"{_PROGRAMS}/{tool}" for tool in _TOOLS]
        members = Userland(self.tools).members([*programs, *_CLIENTS], _LOADED)
        members += [cpio.directory(path) for path in _DIRECTORIES]
        # Packages know the directory by its old name.
        members.append(cpio.link("var/run", "/run"))
        # The agent is its interpreter.
        members.append(cpio.file(_VIF_SCRIPT, b"#!/init xen-vif\n", executable=True))
        # Without it every `xl` complains.
        members.append(cpio.file("etc/xen/xl.conf", b""))
        return members


def find(cache: Cache) -> Xen | None:
    """Xen, where its packages were fetched before."""
    hypervisor = fetched_all([_HYPERVISOR_PACKAGE], cache)
    tools = fetched_all(_TOOL_PACKAGES, cache)
    return Xen(hypervisor[0], tuple(tools)) if hypervisor and tools else None


def fetch(cache: Cache, progress: Progress, refresh: bool = False) -> Xen:
    """The same, fetched where it is not there. Call it under `cache.building()`.

    Raises:
        MachineError: the distribution has no Xen of this release, or it cannot be had.
    """
    hypervisor = fetch_all([_HYPERVISOR_PACKAGE], cache, progress, refresh)
    return Xen(hypervisor[0], tuple(fetch_all(_TOOL_PACKAGES, cache, progress, refresh)))
