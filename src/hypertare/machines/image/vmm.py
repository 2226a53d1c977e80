"""What a machine with guests of its own has beside its kernel: Xen and its tools, or QEMU and its firmware.

All of it comes from the distribution's packages, unpacked and not installed. The guests' kernel and
initramfs lie in the machine's own (under Xen in the driver domain's), where `xl create` and QEMU find them.
"""

from __future__ import annotations

import re
import zlib
from dataclasses import dataclass

from hypertare.base.arch import ARCH
from hypertare.base.errors import MachineError
from hypertare.machines.image import cpio
from hypertare.machines.image.cache import Cache, Entry, Progress
from hypertare.machines.image.userland import Userland, fetch_all
from hypertare.protocol.constants import VIRTIOFSD, XEN_BLOCK_SCRIPT, XEN_RELEASE, XEN_VIF_SCRIPT

_XEN_VERSION = 3
"""Of what is taken from the packages; part of an image's key."""

XEN_FILE = "xen"
XEN_KERNEL = "vmlinux"
"""The hypervisor and the kernel that boots under it in an image's cache entry."""

_HYPERVISOR_PACKAGE = f"xen-hypervisor-{XEN_RELEASE}-amd64"
_TOOL_PACKAGES = (f"xen-utils-{XEN_RELEASE}", "xenstore-utils", "libgcc-s1")
_TOOLS_FOLDER = f"usr/lib/xen-{XEN_RELEASE}/bin"
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

    @classmethod
    def fetch(cls, cache: Cache, progress: Progress, refresh: bool) -> Xen:
        """Xen, fetched where it is not there.

        Raises:
            MachineError: the distribution has no Xen of this release, or it cannot be had.
        """
        hypervisor = fetch_all([_HYPERVISOR_PACKAGE], cache, progress, refresh)
        return cls(hypervisor[0], tuple(fetch_all(_TOOL_PACKAGES, cache, progress, refresh)))

    @property
    def digest(self) -> list[str]:
        """For the key of an image: every package by its name, version and checksum."""
        return [str(_XEN_VERSION), self.hypervisor.key, *sorted(entry.key for entry in self.tools)]

    @property
    def name(self) -> str:
        return f"Xen {self.hypervisor.facts['version']}"

    def kernel(self) -> bytes:
        """The hypervisor as a multiboot ELF file, which QEMU starts directly.

        Raises:
            MachineError: the package holds none that can be unpacked.
            DamagedError: it is not what was put there.
        """
        packed = self.hypervisor.read(f"boot/xen-{XEN_RELEASE}-amd64.gz")
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
        programs = [f"{_TOOLS_FOLDER}/{tool}" for tool in _TOOLS]
        members = Userland(self.tools).members([*programs, *_CLIENTS], _LOADED)
        members += [cpio.directory(path) for path in _DIRECTORIES]
        # Packages know the directory by its old name.
        members.append(cpio.link("var/run", "/run"))
        # The agent is its interpreter.
        for script, verb in ((XEN_VIF_SCRIPT, b"xen-vif"), (XEN_BLOCK_SCRIPT, b"xen-block")):
            text = b"#!/init %s\n" % verb
            members.append(cpio.file(script.lstrip("/"), text, executable=True))
        # Without it every `xl` complains.
        members.append(cpio.file("etc/xen/xl.conf", b""))
        return members


_P2M_TABLE = re.compile(
    # mov $0x8000000,%edx: 512 GiB of pages, the kernel's CONFIG_XEN_MEMORY_HOTPLUG_LIMIT ...
    rb"(?<=\xba)\x00\x00\x00\x08"
    # ... of which and the pages that there are the larger is taken: cmovb %rdx,%rax ...
    rb"(?=.{0,40}?\x48\x0f\x42\xc2"
    # ... as a table of 8 bytes each, in steps of 2 MiB: lea 0x1fffff(,%rax,8),%rax; and $-0x200000,%rax
    rb"\x48\x8d\x04\xc5\xff\xff\x1f\x00\x48\x25\x00\x00\xe0\xff)",
    re.DOTALL,
)
P2M_LIMIT = 16 << 30
"""Bytes; of guest memory, and of what a driver domain maps of its guests, all must lie below."""


def quick_to_boot(vmlinux: bytes) -> bytes:
    """The kernel with less room for memory that may be plugged in while it runs as a PV guest.

    A PV kernel keeps a table of its pages, and looks at every entry when it boots: of 512 GiB, whatever
    it has (`xen_vmalloc_p2m_tree` in Linux's arch/x86/xen/p2m.c). That is 1.3 of the 2.7 thousand
    million instructions of a driver domain's boot, and more of a guest's. Without Xen the function is
    never called. A kernel in which it is not found, or not once, stays as it is.
    """
    found = list(_P2M_TABLE.finditer(vmlinux))
    if len(found) != 1:
        return vmlinux
    start, end = found[0].span()
    return vmlinux[:start] + (P2M_LIMIT >> 12).to_bytes(4, "little") + vmlinux[end:]


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
