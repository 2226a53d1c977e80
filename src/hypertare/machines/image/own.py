"""Programs and files of this host for machines that do not see its files.

A program comes with the libraries that it is linked with, as this host's loader finds them; the
program itself is not started. Where the distribution's packages in the image have a library, theirs
is taken, for it has to fit their loader; that it is new enough is checked.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

from hypertare.base.arch import ARCH
from hypertare.base.errors import InputError, MachineError
from hypertare.base.programs import captured
from hypertare.machines.image import cpio
from hypertare.machines.image.userland import Userland, needs_of

PLACE = "usr/local/bin"
"""Where programs go; PATH has it first."""

_FOUND = re.compile(r"^\s*(\S+) => (/.+) \(0x[0-9a-f]+\)$", re.MULTILINE)
_MISSING = re.compile(r"^\s*(\S+) => not found$", re.MULTILINE)
_MOST = 256 << 20
_LIMIT_S = 60.0


@dataclass(frozen=True)
class Own:
    """A program, or a directory's files, as they go into an archive; `libraries` by soname.

    `command` is what a study calls it, for a program.
    """

    name: str
    members: tuple[cpio.Member, ...]
    libraries: Mapping[str, bytes]
    command: str | None

    @property
    def digest(self) -> str:
        seen = hashlib.sha256()
        for member in (*self.members, *(cpio.file(k, v) for k, v in self.libraries.items())):
            head = f"{member.path}\0{member.mode}\0{len(member.data)}\0"
            seen.update(head.encode(errors="surrogateescape") + member.data)
        return seen.hexdigest()


def read_own(path: Path, work: str) -> Own:
    """What a study names by its path; a directory's files go below `work`.

    Raises:
        InputError: it is not there, cannot be read, is too large, or cannot run by itself.
    """
    path = Path(os.path.normpath(path.absolute()))
    try:
        if path.is_dir():
            return Own(path.name, tuple(_tree(path, work)), {}, None)
        data = path.read_bytes()
    except OSError as error:
        reason = error.strerror or str(error)
        raise InputError(f"sut.programs: {error.filename or path}: {reason}.") from None
    if not os.access(path, os.X_OK):
        raise InputError(
            f"sut.programs: {path} is not executable.",
            "Name a program, or the directory of what is worked on.",
        )
    member = cpio.file(f"{PLACE}/{path.name}", data, executable=True)
    return Own(path.name, (member,), _libraries(path, data), path.name)


def _tree(folder: Path, work: str) -> Iterator[cpio.Member]:
    room = _MOST
    yield cpio.directory(f"{work}/{folder.name}")
    for path in sorted(folder.rglob("*")):
        name = f"{work}/{folder.name}/{path.relative_to(folder)}"
        mode = path.lstat().st_mode
        if stat.S_ISLNK(mode):
            yield cpio.link(name, str(path.readlink()))
        elif stat.S_ISDIR(mode):
            yield cpio.directory(name)
        elif stat.S_ISREG(mode):
            room -= path.lstat().st_size
            if room < 0:
                raise InputError(
                    f"sut.programs: {folder} has more than {_MOST >> 20} MB, and all of it would "
                    "lie in the machine's memory.",
                    "Name a directory with no more than what is needed.",
                )
            yield cpio.file(name, path.read_bytes(), executable=bool(mode & 0o100))


def _libraries(path: Path, data: bytes) -> dict[str, bytes]:
    """What this host's loader would load with the program; nothing for one that needs none."""
    try:
        needs = needs_of(str(path), data)
    except MachineError as error:
        raise InputError(f"sut.programs: {error.what}") from None
    if needs.loader is None and not needs.libraries:
        return {}
    if needs.loader != ARCH.loader:
        raise InputError(
            f"sut.programs: {path} wants the loader {needs.loader}; only programs of {ARCH.loader} can "
            "be taken along.",
            "Link it statically.",
        )
    said = captured([ARCH.loader, "--list", str(path.resolve())], _LIMIT_S).stdout
    if missing := _MISSING.search(said):
        raise InputError(
            f"sut.programs: {path} needs {missing[1]}, which this host does not have.",
            "Install it, or link the program statically.",
        )
    found = dict(_FOUND.findall(said))
    return {soname: Path(place).read_bytes() for soname, place in sorted(found.items())}


def check_own(own: Own, userland: Userland) -> None:
    """Whether the packages' libraries do for the program and for this host's beside them.

    Raises:
        InputError: one is older than what it was linked with.
    """
    programs = {own.name: own.members[0].data} if own.command else {}
    ours = {name: data for name, data in own.libraries.items() if not userland.has(name)}
    for name, data in {**programs, **ours}.items():
        for soname, versions in _needed_versions(data).items():
            if not userland.has(soname):
                continue
            lacking = versions - _defined_versions(userland.content(soname))
            if lacking:
                raise InputError(
                    f"sut.programs: {name} needs {sorted(lacking)[0]} of {soname}, and that of the "
                    "distribution's package is older.",
                    "Update the packages (`hypertare image build --refresh` after `apt-get "
                    "update`), or link the program statically.",
                )


def _needed_versions(data: bytes) -> dict[str, set[str]]:
    from elftools.elf.elffile import ELFFile
    from elftools.elf.gnuversions import GNUVerNeedSection

    if not data.startswith(b"\x7fELF"):
        return {}
    section = ELFFile(BytesIO(data)).get_section_by_name(".gnu.version_r")
    if not isinstance(section, GNUVerNeedSection):
        return {}
    return {
        need.name: {one.name for one in versions}
        for need, versions in section.iter_versions()
        if need.name
    }


def _defined_versions(data: bytes) -> set[str]:
    from elftools.elf.elffile import ELFFile
    from elftools.elf.gnuversions import GNUVerDefSection

    section = ELFFile(BytesIO(data)).get_section_by_name(".gnu.version_d")
    if not isinstance(section, GNUVerDefSection):
        return set()
    return {one.name for _, names in section.iter_versions() for one in names}
