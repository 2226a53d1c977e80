"""Where a guest's kernel comes from: the distribution, this host, or a path."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

from hypertare.base.errors import InputError, MachineError
from hypertare.machines.image.bzimage import (
    decompress,
    has_pvh_entry,
    is_bzimage,
    is_elf,
    payload,
    release_of,
)
from hypertare.machines.image.cache import Cache, Entry, Progress
from hypertare.machines.image.modules import ModuleTree
from hypertare.machines.image.package import fetch, fetched, look_up

_VERSION = 1
"""Of the way a kernel is made ready; part of every key, so that a change makes all anew."""

DEFAULT_PACKAGE = "linux-image-amd64"


@dataclass(frozen=True)
class KernelSource:
    """A kernel as found: `digest` names its content before it is made ready.

    `headers`: where modules for it can be built; one from a package has them in others.
    """

    name: str
    digest: str
    boot: Callable[[], bytes]
    modules: ModuleTree | None
    modules_digest: str
    package: Entry | None = None
    headers: Path | None = None


def find_source(asked: str, cache: Cache) -> KernelSource | None:
    """The kernel that `asked` means, without fetching anything; none when it has to be fetched.

    Raises:
        MachineError, InputError: the host's kernel or the path is not usable.
    """
    if _package_name(asked):
        entry = fetched(asked, cache)
        return _from_package(entry) if entry else None
    if asked != "host":
        if Path(asked).is_file():
            return _from_files(Path(asked), None)
        raise InputError(
            f"There is no kernel {Path(asked)}.",
            "Give `debian`, `debian:PACKAGE`, `host`, or the path of a vmlinuz or vmlinux.",
        )
    release = os.uname().release
    boot = Path("/boot") / f"vmlinuz-{release}"
    if not boot.is_file():
        raise MachineError(
            f"This host's own kernel is not on its disk: no {boot}.",
            "Use the distribution's kernel: `--kernel debian`.",
        )
    return _from_files(boot, Path("/lib/modules") / release)


def source_of(asked: str, cache: Cache, progress: Progress, refresh: bool) -> KernelSource:
    """Returns the kernel that `asked` means, and fetches it from the distribution if needed.

    `refresh` asks for the newest one.

    Raises:
        MachineError, InputError: the kernel cannot be had, or the file is no kernel.
    """
    name = _package_name(asked)
    found = None if name and refresh else find_source(asked, cache)
    if found:
        return found
    assert name is not None, "what is on this host is found or refused"
    progress(f"looking up {name}")
    package = look_up(name)
    # A metapackage names the one that holds a kernel.
    real = re.findall(r"\blinux-image-\d[\w.+~-]*", package.depends)
    return _from_package(fetch(look_up(real[0]) if real else package, cache, asked, progress))


def key_of(source: KernelSource) -> str:
    return hashlib.sha256(f"{_VERSION} {source.digest}".encode()).hexdigest()[:24]


def find_kernel(source: KernelSource, cache: Cache) -> Entry | None:
    """The kernel of this source when it is already made ready: its `file` and its `release` are facts."""
    return cache.sound("kernels", key_of(source))


def make_kernel(source: KernelSource, cache: Cache, progress: Progress) -> Entry:
    """Unpacks the kernel where that makes it boot faster.

    Raises:
        InputError: the file is no kernel.
    """

    def fill(place: Path) -> dict[str, str]:
        progress(f"unpacking the kernel {source.name}")
        name, data, release = _bootable(source)
        (place / name).write_bytes(data)
        return {"file": name, "release": release}

    return cache.make("kernels", key_of(source), f"kernel {source.name}", fill, progress)


def _bootable(source: KernelSource) -> tuple[str, bytes, str]:
    data = source.boot()
    release = release_of(data) or "unknown"
    if is_elf(data):
        if not has_pvh_entry(data):
            raise InputError(
                f"The kernel {source.name} is an ELF file without a PVH entry.",
                "Give its bzImage, or build it with CONFIG_PVH=y.",
            )
        return "vmlinux", data, release
    if not is_bzimage(data):
        raise InputError(
            f"The kernel {source.name} is neither a bzImage nor an ELF file.",
            "Give an x86-64 vmlinuz, bzImage or vmlinux.",
        )
    try:
        vmlinux = decompress(payload(data))
    except InputError as error:
        raise InputError(f"The kernel {source.name} cannot be unpacked. {error.what}") from error
    return ("vmlinux", vmlinux, release) if has_pvh_entry(vmlinux) else ("bzImage", data, release)


def _package_name(asked: str) -> str | None:
    if asked == "debian":
        return DEFAULT_PACKAGE
    head, colon, name = asked.partition(":")
    return name if head == "debian" and colon and name else None


def _from_package(entry: Entry) -> KernelSource:
    boots = [name for name in entry.digests if re.fullmatch(r"boot/vmlinuz-.+", name)]
    if len(boots) != 1:
        raise InputError(
            f"The package {entry.facts['name']} holds no kernel.",
            "Name a package that does, for example `--kernel debian:linux-image-amd64`.",
        )
    boot = boots[0]
    release = boot.removeprefix("boot/vmlinuz-")
    in_usr = f"usr/lib/modules/{release}"
    has_usr = any(name.startswith(f"{in_usr}/") for name in entry.digests)
    inside = in_usr if has_usr else f"lib/modules/{release}"

    return KernelSource(
        name=f"{release} ({entry.facts['name']} {entry.facts['version']})",
        digest=entry.digests[boot],
        boot=lambda: entry.read(boot),
        modules=ModuleTree(entry.path / inside, lambda name: entry.read(f"{inside}/{name}")),
        modules_digest=entry.key,
        package=entry,
    )


def _from_files(boot: Path, modules: Path | None) -> KernelSource:
    try:
        data = boot.read_bytes()
    except OSError as error:
        raise MachineError(
            f"The kernel {boot} cannot be read: {error.strerror}.",
            "Run as root once, copy it to a place of yours, or use `--kernel debian`.",
        ) from error
    root = modules or _modules_beside(boot, release_of(data))

    return KernelSource(
        name=f"{release_of(data) or 'unknown'} ({boot})",
        digest=hashlib.sha256(data).hexdigest(),
        boot=lambda: data,
        modules=ModuleTree(root, lambda name: (root / name).read_bytes()) if root else None,
        modules_digest=_tree_digest(root) if root else "none",
        headers=root / "build" if root and (root / "build").is_dir() else None,
    )


def _modules_beside(boot: Path, release: str | None) -> Path | None:
    """`lib/modules/RELEASE` next to the kernel, in its package or build tree, or on this host."""
    if not release:
        return None
    roots = (boot.parent, boot.parent.parent, Path("/"))
    places = (root / "lib/modules" / release for root in roots)
    return next((place.resolve() for place in places if place.is_dir()), None)


def _tree_digest(root: Path) -> str:
    """Names, sizes and times of all modules: changed modules are noticed without reading them."""
    digest = hashlib.sha256()
    for place, directories, names in os.walk(root):
        directories.sort()
        for name in sorted(names):
            if ".ko" in name or name == "modules.builtin":
                found = (Path(place) / name).stat()
                digest.update(f"{place}/{name} {found.st_size} {found.st_mtime_ns}\n".encode())
    return digest.hexdigest()


def loadable(vmlinux: bytes) -> bytes:
    """The kernel without what is never loaded: symbols and the like are half of the file.

    Cut behind the last segment; the section headers, which stood behind it, are struck out.

    Raises:
        MachineError: it is no ELF file of 64 bits.
    """
    from elftools.common.exceptions import ELFError
    from elftools.elf.elffile import ELFFile

    try:
        segments = list(ELFFile(BytesIO(vmlinux)).iter_segments())
    except ELFError as error:
        raise MachineError(f"A machine's guest cannot boot this kernel: {error}.") from error
    end = max((segment["p_offset"] + segment["p_filesz"] for segment in segments), default=0)
    cut = bytearray(vmlinux[:end])
    # e_shoff, and e_shnum with e_shstrndx, of the ELF header (System V ABI, chapter 4).
    cut[0x28:0x30] = bytes(8)
    cut[0x3C:0x40] = bytes(4)
    return bytes(cut)
