"""A guest's kernel, of the distribution, this host or a path; and the project's own module built for it.

The module (`kernel/`) is built against that kernel's headers: those of the distribution's packages,
unpacked and not installed, or `lib/modules/RELEASE/build` beside a kernel from elsewhere. Where it cannot
be built the image does without, and holds the reason: what needs the module then says it.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import struct
import subprocess
from collections.abc import Callable
from dataclasses import astuple, dataclass
from io import BytesIO
from pathlib import Path

from hypertare.base.errors import InputError, MachineError
from hypertare.base.host_files import captured
from hypertare.base.paths import CHECKOUT, PACKAGE
from hypertare.machines.image.cache import Cache, Entry, Progress
from hypertare.machines.image.kernel_files import (
    ModuleTree,
    decompress,
    has_pvh_entry,
    is_bzimage,
    is_elf,
    payload,
    release_of,
)
from hypertare.machines.image.package import Package, fetch, fetched, look_up

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


_PAGE = 4096
_LOAD = 1
_PROGRAM_HEADER = struct.Struct("<IIQQQQQQ")


@dataclass
class _Segment:
    """A program header of ELF (System V ABI, chapter 5). `offset` and `size` are of the file."""

    kind: int
    flags: int
    offset: int
    virtual: int
    physical: int
    size: int
    memory: int
    alignment: int

    def has(self, other: _Segment) -> bool:
        return self.offset <= other.offset and other.end <= self.end

    @property
    def end(self) -> int:
        return self.offset + self.size

    def packed(self) -> bytes:
        return _PROGRAM_HEADER.pack(*astuple(self))


def loadable(vmlinux: bytes) -> bytes:
    """The kernel without what need not be copied: symbols and the like, which are never loaded, zeros at
    the end of a segment, which a loader makes by itself, and gaps between segments.

    A machine that has guests copies it several times: into its memory, its root and each guest.

    Raises:
        MachineError: it is no ELF file of 64 bits.
    """
    from elftools.common.exceptions import ELFError
    from elftools.elf.elffile import ELFFile

    try:
        elf = ELFFile(BytesIO(vmlinux))
        if elf.elfclass != 64:
            raise ELFError(f"it is an ELF file of {elf.elfclass} bits, and 64 are needed")
        begin, end = elf["e_phoff"], elf["e_phoff"] + elf["e_phnum"] * _PROGRAM_HEADER.size
        segments = [_Segment(*one) for one in _PROGRAM_HEADER.iter_unpack(vmlinux[begin:end])]
    except (ELFError, struct.error) as error:
        raise MachineError(f"A machine's guest cannot boot this kernel: {error}.") from error
    file = bytearray(vmlinux[:end])
    for loaded in [one for one in segments if one.kind == _LOAD]:
        inner = [one for one in segments if one.kind != _LOAD and loaded.has(one)]
        data = vmlinux[loaded.offset : loaded.end].rstrip(b"\0")
        # As far into a page as before, as the ABI has it.
        place = len(file) + (loaded.offset - len(file)) % _PAGE
        file += bytes(place - len(file)) + data
        for one in inner:
            one.offset += place - loaded.offset
        loaded.offset, loaded.size, loaded.alignment = place, len(data), _PAGE
    file[begin:end] = b"".join(one.packed() for one in segments)
    # e_shoff, and e_shnum with e_shstrndx, of the ELF header (chapter 4): there are no section headers.
    file[0x28:0x30] = bytes(8)
    file[0x3C:0x40] = bytes(4)
    return bytes(file)


_MODULE_VERSION = 1
"""Of the way it is built; part of every key."""

_LIMIT_S = 300
_AGAIN = "`hypertare image build --refresh` tries again."


@dataclass(frozen=True)
class Built:
    """A module's file, or the reason why there is none."""

    name: str
    entry: Entry

    @property
    def reason(self) -> str | None:
        return self.entry.facts.get("reason")

    @property
    def digest(self) -> str:
        """Of what goes into an image."""
        return self.reason or self.entry.digests.get(_file(self.name), "")

    def content(self) -> bytes:
        """The module.

        Raises:
            DamagedError: it is not what was put there.
        """
        return self.entry.read(_file(self.name))


class _UnavailableError(Exception):
    """It cannot be built here; the message says why and what to do."""


def find_module(name: str, source: KernelSource, cache: Cache) -> Built | None:
    """The module, or why there is none, when that is known without building."""
    entry = cache.find("modules", _key(name, source))
    return Built(name, entry) if entry else None


def make_module(name: str, source: KernelSource, cache: Cache, progress: Progress) -> Built:
    """Builds the module, or notes why it cannot be had."""

    def fill(place: Path) -> dict[str, str]:
        try:
            (place / _file(name)).write_bytes(_build(name, source, cache, place, progress))
        except _UnavailableError as why:
            return {"reason": " ".join(str(why).split())}
        return {}

    what = f"module {name} for {source.name}"
    return Built(name, cache.make("modules", _key(name, source), what, fill, progress))


def _file(name: str) -> str:
    return f"{name}.ko"


def _key(name: str, source: KernelSource) -> str:
    digest = hashlib.sha256(
        f"{_MODULE_VERSION} {name} {source.digest} {source.modules_digest}".encode()
    )
    for path in sources(name):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:24]


def sources(name: str) -> list[Path]:
    """`kernel/` of this checkout, or of the installed package."""
    places = (CHECKOUT / "kernel", PACKAGE / "kernel")
    files = ([place / "Kbuild", place / f"{name}.c"] for place in places)
    return next((found for found in files if all(path.is_file() for path in found)), [])


def _build(name: str, source: KernelSource, cache: Cache, place: Path, progress: Progress) -> bytes:
    work = place / "work"
    try:
        if not sources(name):
            raise _UnavailableError(f"this installation lacks the source of {name}")
        # The directory to build in, and the compiler that the kernel was built with.
        if source.package:
            headers, compiler = _packaged_headers(source.package, cache, work, progress)
        elif source.headers:
            headers, compiler = source.headers, _compiler(None)
        else:
            raise _UnavailableError(
                f"the kernel {source.name} has no headers beside it (lib/modules/RELEASE/build). "
                "Use the distribution's kernel (`--kernel debian`), or install its headers."
            )
        progress(f"building the kernel module {name}")
        module = work / "module"
        module.mkdir(parents=True)
        for path in sources(name):
            shutil.copy(path, module / path.name)
        _run(["make", "-C", str(headers), f"M={module}", f"CC={compiler}", "modules"], name)
        # Debugging sections name the directory of the build: without them its bytes are the same anywhere.
        _run(["strip", "--strip-debug", str(module / _file(name))], name)
        return (module / _file(name)).read_bytes()
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _packaged_headers(
    image: Entry, cache: Cache, work: Path, progress: Progress
) -> tuple[Path, str]:
    name = image.facts["name"].replace("linux-image-", "linux-headers-").removesuffix("-unsigned")
    try:
        own = look_up(name)
        if own.version != image.facts["version"]:
            raise _UnavailableError(
                f"the distribution has the headers of {own.version}, and the kernel is "
                f"{image.facts['version']}. {_AGAIN}"
            )
        compiler = _compiler(compiler_of(own))
        common = look_up(_needed(own, r"linux-headers-[\w.+~-]+-common(?:-rt)?"))
        kbuild = look_up(_needed(own, r"linux-kbuild-[\w.+~-]+"))
        entries = [fetch(each, cache, each.name, progress) for each in (own, common, kbuild)]
    except MachineError as error:
        raise _UnavailableError(f"its kernel's headers cannot be had: {error}. {_AGAIN}") from error
    return _joined([entry.path for entry in entries], name, work), compiler


def compiler_of(headers: Package) -> str | None:
    """The version of gcc that the kernel was built with, as its headers name it: by a package of its
    own, and from Linux 7 on by the compiler itself."""
    found = re.search(r"(?:linux-compiler-)?gcc-(\d+)-(?:x86|for-host)", headers.depends)
    return found and found[1]


def _needed(package: Package, pattern: str) -> str:
    found = re.search(pattern, package.depends)
    if found is None:
        raise _UnavailableError(
            f"the package {package.name} does not say which {pattern} it belongs to"
        )
    return found[0]


def _joined(unpacked: list[Path], name: str, work: Path) -> Path:
    """The packages as if installed below `work`: they name each other by absolute paths.

    Only directories are made anew; files are links, but for the one that holds such a path.
    """
    for package in unpacked:
        for parent in (package / "usr/src", package / "usr/lib"):
            for tree in sorted(parent.glob("linux-*")):
                if tree.is_symlink():
                    continue
                place = work / tree.relative_to(package)
                place.mkdir(parents=True)
                for child in sorted(tree.iterdir()):
                    (place / child.name).symlink_to(
                        child.readlink() if child.is_symlink() else child
                    )
    headers = work / "usr/src" / name
    makefile = headers / "Makefile"
    text = makefile.read_text(encoding="utf-8").replace("/usr/src/", f"{work}/usr/src/")
    makefile.unlink()
    makefile.write_text(text, encoding="utf-8")
    return headers


def _compiler(major: str | None) -> str:
    """A gcc of the version that the kernel was built with: its plugins and options depend on it."""
    if shutil.which("make") is None:
        raise _UnavailableError(
            f"this host has no make. Install gcc-{major or '12'} and make; {_AGAIN}"
        )
    names = [f"gcc-{major}", "gcc"] if major else ["gcc"]
    for name in filter(shutil.which, names):
        found = captured([name, "-dumpversion"], _LIMIT_S)
        if major is None or found.stdout.split(".")[0].strip() == major:
            return name
    raise _UnavailableError(
        f"this host has no gcc{'-' + major if major else ''}, which built the kernel. "
        f"Install it; {_AGAIN}"
    )


def _run(argv: list[str], name: str) -> None:
    try:
        done = captured(argv, _LIMIT_S)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise _UnavailableError(f"{name} could not be built: {error}. {_AGAIN}") from error
    if done.returncode != 0:
        lines = [line for line in done.stderr.splitlines() if "error" in line.lower()]
        said = (lines or done.stderr.splitlines()[-1:] or ["no message"])[0]
        raise _UnavailableError(f"{name} could not be built: {said}. {_AGAIN}")
