"""Programs with all that they need to run, and nothing else, of the distribution and of this host.

Nothing is installed: packages are unpacked, and what is taken from them are the programs asked for and
the libraries that these name as needed, theirs too. In the archive libraries stand under their
sonames in one directory, where the loader looks by itself. A program of this host comes with the libraries
that it is linked with, as this host's loader finds them; the program itself is not started. Where the
packages in the image have a library, theirs is taken, for it has to fit their loader; that it is new enough
is checked.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path, PurePosixPath

from hypertare.base.arch import ARCH
from hypertare.base.errors import InputError, MachineError
from hypertare.base.host_files import captured
from hypertare.machines.image import cpio
from hypertare.machines.image.cache import Cache, Entry, Progress
from hypertare.machines.image.package import fetch, fetched, look_up

_LIBRARY_PACKAGE = re.compile(r"lib(?!c-bin)[\w.+-]+|zlib1g")
_MOST_PACKAGES = 200


@dataclass(frozen=True)
class Needs:
    """What an ELF file says of itself: libraries by soname, and the path of its loader."""

    libraries: tuple[str, ...]
    loader: str | None


class Userland:
    """What programs of these packages need."""

    def __init__(self, packages: Sequence[Entry]) -> None:
        self._places: dict[str, tuple[Entry, str]] = {}
        self._libraries: dict[str, tuple[Entry, str]] = {}
        for entry in packages:
            for name in sorted(entry.digests):
                self._places.setdefault(name, (entry, name))
            root = entry.path.resolve()
            for path in sorted(root.rglob("*.so*")):
                place = path.resolve()
                # Most are links, which have no digest of their own.
                if place.is_file() and place.is_relative_to(root):
                    self._libraries.setdefault(path.name, (entry, str(place.relative_to(root))))

    def has(self, soname: str) -> bool:
        """Whether a package has this library."""
        return soname in self._libraries

    def content(self, soname: str) -> bytes:
        """A library; raises as `members`."""
        return self._file(soname)[1]

    def members(self, programs: Iterable[str], loaded: Iterable[str] = ()) -> list[cpio.Member]:
        """The programs, by their paths in the packages, and their libraries.

        `loaded` are sonames that a program loads while it runs and so does not name.

        Raises:
            MachineError: no package has a program or a library.
            DamagedError: a file of a package is not what was put there.
        """
        members, loaders = {}, set()
        asked = deque([*programs, *loaded])
        seen: set[str] = set()
        while asked:
            name = asked.popleft()
            if name in seen:
                continue
            seen.add(name)
            path, data = self._file(name)
            members[path] = cpio.file(path, data, executable=True)
            needs = needs_of(name, data)
            asked.extend(needs.libraries)
            if needs.loader:
                loaders.add(needs.loader)
                asked.append(PurePosixPath(needs.loader).name)
        # The loader is found by its path and not by its name.
        links = (
            cpio.link(loader.lstrip("/"), f"/{ARCH.libraries}/{PurePosixPath(loader).name}")
            for loader in sorted(loaders)
        )
        return [*members.values(), *links]

    def _file(self, name: str) -> tuple[str, bytes]:
        """Path in the archive, and content."""
        is_path = "/" in name
        found = (self._places if is_path else self._libraries).get(name)
        if found is None:
            raise MachineError(
                f"None of the unpacked packages has {name}.",
                "The distribution has changed: `hypertare image build --refresh` tries its newest "
                "packages; if that does not help, report it with the distribution's release.",
            )
        entry, place = found
        return (name if is_path else f"{ARCH.libraries}/{name}"), entry.read(place)


Follow = Callable[[str], bool]
"""A function that decides by its name whether a dependency of a package is fetched too."""


def is_library(name: str) -> bool:
    """Whether a program may need the package to run. Packages for compiling (`-dev`) do not count."""
    return _LIBRARY_PACKAGE.fullmatch(name) is not None and not name.endswith("-dev")


def fetched_all(
    names: Iterable[str], cache: Cache, follow: Follow = is_library
) -> list[Entry] | None:
    """Packages and those of the libraries that they depend on, where all were fetched before."""
    return _all(names, lambda name: fetched(name, cache), follow)


def fetch_all(
    names: Iterable[str],
    cache: Cache,
    progress: Progress,
    refresh: bool = False,
    follow: Follow = is_library,
) -> list[Entry]:
    """Returns packages and the libraries that they depend on, and fetches the missing ones.

    `refresh` asks for the newest packages.

    Raises:
        MachineError: one cannot be had.
    """

    def one(name: str) -> Entry:
        known = None if refresh else fetched(name, cache)
        return known or fetch(look_up(name), cache, name, progress)

    entries = _all(names, one, follow)
    assert entries is not None, "what is not there is fetched, or it is an error"
    return entries


def _all(
    names: Iterable[str], find: Callable[[str], Entry | None], follow: Follow
) -> list[Entry] | None:
    entries: dict[str, Entry] = {}
    asked = deque(names)
    while asked:
        name = asked.popleft()
        if name in entries:
            continue
        if len(entries) == _MOST_PACKAGES:
            raise MachineError(f"More than {_MOST_PACKAGES} packages would be needed for {name}.")
        entry = find(name)
        if entry is None:
            return None
        entries[name] = entry
        asked.extend(filter(follow, depends(entry.facts["depends"])))
    return list(entries.values())


def depends(text: str) -> list[str]:
    """Names in a `Depends` field, of alternatives the first.

    Format: Debian Policy, section 7.1.
    """
    relations = (relation.split("|")[0].strip() for relation in text.split(","))
    return [re.split(r"[\s(:]", relation)[0] for relation in relations if relation]


def needs_of(name: str, data: bytes) -> Needs:
    """What an ELF file needs; a script needs nothing that could be found out.

    Raises:
        MachineError: it is a damaged ELF file.
    """
    from elftools.common.exceptions import ELFError
    from elftools.elf.dynamic import DynamicSection
    from elftools.elf.elffile import ELFFile

    if not data.startswith(b"\x7fELF"):
        return Needs((), None)
    try:
        file = ELFFile(BytesIO(data))
        dynamic = file.get_section_by_name(".dynamic")
        tags = dynamic.iter_tags("DT_NEEDED") if isinstance(dynamic, DynamicSection) else ()
        libraries = tuple(tag.needed for tag in tags)  # type: ignore[attr-defined]  # set as it runs
        loader = file.get_section_by_name(".interp")
        path = loader.data().rstrip(b"\0").decode() if loader else None
    except (ELFError, ValueError, IndexError, UnicodeDecodeError) as error:
        raise MachineError(f"The program {name} is damaged: {error}.") from error
    return Needs(libraries, path)


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
