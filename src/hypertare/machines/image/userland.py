"""Programs of the distribution's packages with all that they need to run, and nothing else.

Nothing is installed: packages are unpacked, and what is taken from them are the programs asked for and
the libraries that these name as needed, theirs too. In the archive libraries stand under their
sonames in one directory, where the loader looks by itself.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import PurePosixPath

from hypertare.base.arch import ARCH
from hypertare.base.errors import MachineError
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
