"""Real programs for machines that have no others: a compiler with a project to build, a compressor
with a file to compress, and the shell that starts them.

They come from the distribution's packages, unpacked and not installed, and what they work on from
the distribution's archive of sources; all of it is checked by hash. The machine has them where the
distribution has them, and what they work on in the directory `WORK`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from hypertare.base.arch import ARCH
from hypertare.base.errors import InputError, MachineError
from hypertare.machines.image import cpio
from hypertare.machines.image.cache import Cache, Entry, Progress
from hypertare.machines.image.package import BZIP2, MUSL, Source
from hypertare.machines.image.userland import (
    Own,
    Userland,
    check_own,
    fetch_all,
    fetched_all,
    is_library,
    read_own,
)
from hypertare.study.sut import is_own_program

VERSION = 3
"""Of what is taken from the packages; part of an image's key."""

WORK = "/projects"
"""Where commands start, and what they work on lies."""


@dataclass(frozen=True)
class ProgramSet:
    """What a study asks for by one name.

    `programs` and `files` are patterns (regular expressions) of paths in the packages; programs
    come with the libraries that they need. `loaded` are libraries that are needed without being
    named. `commands` are those that a study may use by name, `shown` the packages whose versions
    are worth naming. `trees` lie unpacked in `WORK`, `archives` as tar files.
    """

    name: str
    what: str
    packages: tuple[str, ...]
    programs: tuple[str, ...]
    commands: tuple[str, ...]
    shown: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    loaded: tuple[str, ...] = ()
    trees: tuple[Source, ...] = ()
    archives: tuple[Source, ...] = ()


_COREUTILS = (
    *("[", "basename", "cat", "chmod", "cp", "cut", "date", "dirname", "echo", "env", "expr"),
    *("false", "head", "install", "ln", "ls", "mkdir", "mktemp", "mv", "nproc", "printf", "pwd"),
    *("rm", "rmdir", "seq", "sha256sum", "sleep", "sort", "stat", "tail", "tee", "test", "touch"),
    *("tr", "true", "uname", "uniq", "wc"),
)
_OTHERS = ("grep", "sed", "cmp", "diff")
_SHELL_TOOLS = "|".join(re.escape(name) for name in (*_COREUTILS, *_OTHERS))

SHELL = ProgramSet(
    name="shell",
    what="a shell and the usual small programs",
    packages=("dash", "coreutils", "grep", "sed", "diffutils"),
    programs=(r"(usr/)?bin/dash", rf"(usr/)?bin/({_SHELL_TOOLS})"),
    commands=("sh", "dash", *_COREUTILS, *_OTHERS),
)
"""Comes with every other set: a command that is a text goes to the shell."""

_GCC = rf"usr/lib(exec)?/gcc/{ARCH.multiarch}/\d+"
_BINUTILS = ("ar", "as", "ld", "nm", "objcopy", "ranlib", "strip")

BUILD = ProgramSet(
    name="build",
    what=f"gcc, make and the source of {MUSL.name} in {WORK}/{MUSL.folder}",
    packages=("gcc", "binutils", "make", "libc6-dev", "linux-libc-dev"),
    shown=("gcc", "binutils", "make", "libc6"),
    programs=(
        rf"usr/bin/({ARCH.multiarch}-)?gcc(-\d+)?",
        rf"usr/bin/({ARCH.multiarch}-)?({'|'.join(_BINUTILS)}|ld\.bfd)",
        rf"{_GCC}/cc1",
        rf"{_GCC}/collect2",
        rf"{_GCC}/liblto_plugin\.so",
        r"usr/bin/make",
    ),
    files=(
        rf"{_GCC}/crt\w+\.o",
        rf"{_GCC}/libgcc(_eh\.a|_s\.so|\.a)",
        rf"{_GCC}/include/.*",
        rf"{ARCH.libraries}/\w*crt\w+\.o",
        # Neither the static C library nor that of mathematics: 7 MB that few builds ask for.
        rf"{ARCH.libraries}/lib(c|m|mvec)\.so",
        rf"{ARCH.libraries}/lib(c_nonshared|pthread|dl|rt|util)\.a",
        r"usr/include/.*",
    ),
    # What the compiler names to the linker.
    loaded=("libc.so.6", "libm.so.6", "libmvec.so.1", "libgcc_s.so.1"),
    commands=("gcc", "cc", "make", *_BINUTILS),
    trees=(MUSL,),
)

COMPRESS = ProgramSet(
    name="compress",
    what=f"pbzip2, bzip2 and {WORK}/{BZIP2.folder}.tar, 3.1 MB",
    packages=("pbzip2", "bzip2", "libgcc-s1"),
    shown=("pbzip2", "bzip2"),
    programs=(r"usr/bin/pbzip2", r"(usr/)?bin/bzip2"),
    # By pthread_exit, without which pbzip2 aborts.
    loaded=("libgcc_s.so.1",),
    commands=("pbzip2", "bzip2"),
    archives=(BZIP2,),
)

SETS = {one.name: one for one in (BUILD, COMPRESS)}

_IN_NAMES = ARCH.multiarch.replace("_", "-")
"""Names of packages have no underscore."""

_TOOLCHAIN = re.compile(rf"(gcc|cpp)-(\d+-)?(\d+|{_IN_NAMES})|libgcc-\d+-dev|binutils-{_IN_NAMES}")
"""Packages behind the one that is called gcc: which they are depends on the distribution."""

_UNUSED = re.compile(
    r"lib(asan|atomic|cc1-|gomp|hwasan|itm|lsan|quadmath|tsan|ubsan)\d+|libc-dev-bin|libgcc1"
)
"""Packages for compiled programs that no program here needs, and the former name of libgcc-s1."""


@dataclass(frozen=True)
class Choice:
    """The program sets that a study asks for, which may not be fetched yet, and programs of this host."""

    sets: tuple[ProgramSet, ...] = ()
    own: tuple[Own, ...] = ()

    @property
    def commands(self) -> tuple[str, ...]:
        """What a study may call by name."""
        return (
            *(one.command for one in self.own if one.command),
            *(name for one in self.sets for name in one.commands),
        )


@dataclass(frozen=True)
class Programs:
    """The packages and sources that sets of programs are taken from, and this host's own."""

    choice: Choice
    packages: tuple[Entry, ...]
    sources: tuple[tuple[Source, Entry], ...]

    @property
    def sets(self) -> tuple[ProgramSet, ...]:
        return self.choice.sets

    @property
    def digest(self) -> list[object]:
        """For the key of an image: everything by its name, version and checksum."""
        kept = [*self.packages, *(entry for _, entry in self.sources)]
        own = [one.digest for one in self.choice.own]
        return [VERSION, [one.name for one in self.sets], sorted(e.key for e in kept), own]

    @property
    def name(self) -> str:
        sets = (one.name for one in self.sets if one is not SHELL)
        return ", ".join([*sets, *(one.name for one in self.choice.own)])

    @property
    def versions(self) -> str:
        """For people: the packages that matter, with their versions."""
        known = {entry.facts["name"]: entry.facts["version"] for entry in self.packages}
        shown = [name for one in self.sets for name in one.shown]
        versions = [f"{name} {known[name]}" for name in shown if name in known]
        return ", ".join([*versions, *(f"{one.name} of this host" for one in self.choice.own)])

    def members(self) -> list[cpio.Member]:
        """Everything, under the paths that it has in the distribution.

        Raises:
            InputError: a program of this host does not fit the packages' libraries.
            MachineError: a package lacks something, or a source is damaged.
            DamagedError: a file is not what was put there.
        """
        userland = Userland(self.packages)
        programs = [p for one in self.sets for p in _matching(self.packages, one.programs)]
        loaded = [soname for one in self.sets for soname in one.loaded]
        libraries = {name: data for one in self.choice.own for name, data in one.libraries.items()}
        loaded += [name for name in libraries if userland.has(name)]
        for one in self.choice.own:
            check_own(one, userland)
        found = {
            member.path: member
            for member in [
                # Commands start there, also where there is nothing to work on.
                cpio.directory(WORK),
                *userland.members(programs, loaded),
                *(m for one in self.sets for m in _plain(self.packages, one.files)),
                *(m for one in self.sets for m in _links(self.packages, one)),
                *work(self.sets, self.sources),
                *(m for one in self.choice.own for m in one.members),
                *(
                    cpio.file(f"{ARCH.libraries}/{name}", data, executable=True)
                    for name, data in libraries.items()
                    if not userland.has(name)
                ),
            ]
        }
        return _at_their_places(found.values())


Sources = Sequence[tuple[Source, Entry]]


def work(sets: Iterable[ProgramSet], sources: Sources) -> Iterator[cpio.Member]:
    """What the sets work on, below `WORK`.

    Raises:
        MachineError: a source is damaged.
        DamagedError: a file is not what was put there.
    """
    entries = {one.key: entry for one, entry in sources}
    for one in sets:
        for tree in one.trees:
            yield from tree.tree(entries[tree.key], WORK)
        for packed in one.archives:
            content = packed.archive(entries[packed.key])
            yield cpio.file(f"{WORK}/{packed.folder}.tar", content)


def fetch_sources(sets: Sequence[ProgramSet], cache: Cache, progress: Progress) -> Sources:
    """What the sets work on, fetched where it is not there.

    Raises:
        MachineError: something cannot be had.
    """
    return tuple((one, one.find(cache) or one.fetch(cache, progress)) for one in _sources(sets))


def choose(names: Iterable[str]) -> Choice:
    """The sets of these names, and what lies at these paths; with a shell, unless it is nothing.

    Raises:
        InputError: there is no such set, or what is named by its path cannot be taken along.
    """
    asked = list(dict.fromkeys(names))
    for name in asked:
        if name not in SETS and not is_own_program(name):
            raise InputError(
                f"There is no set of programs {name!r}.",
                f"Choose from: {', '.join(SETS)}; or name a program of this host by its path, for "
                f"example ./{name}.",
            )
    # In one order, so that it does not matter in which they were asked for.
    sets = tuple(one for name, one in SETS.items() if name in asked)
    found = tuple(read_own(Path(name), WORK) for name in sorted(filter(is_own_program, asked)))
    names = [one.name for one in found]
    for name in names:
        if names.count(name) > 1:
            raise InputError(
                f"sut.programs: two paths end in {name}, and would lie in the same place.",
                "Give them different names.",
            )
    return Choice((SHELL, *sets), found) if asked else Choice()


def find(choice: Choice, cache: Cache) -> Programs | None:
    """What is asked for, where all of it was fetched before."""
    sets = choice.sets
    packages = fetched_all(_packages(sets), cache, _comes_along)
    if packages is None:
        return None
    found = [(one, one.find(cache)) for one in _sources(sets)]
    sources = tuple((one, entry) for one, entry in found if entry)
    return Programs(choice, tuple(packages), sources) if len(sources) == len(found) else None


def fetch(choice: Choice, cache: Cache, progress: Progress, refresh: bool = False) -> Programs:
    """The same, fetched where it is not there.

    Raises:
        MachineError: something cannot be had.
    """
    sources = tuple(fetch_sources(choice.sets, cache, progress))
    packages = fetch_all(_packages(choice.sets), cache, progress, refresh, _comes_along)
    return Programs(choice, tuple(packages), sources)


def _packages(sets: Sequence[ProgramSet]) -> list[str]:
    return list(dict.fromkeys(name for one in sets for name in one.packages))


def _sources(sets: Sequence[ProgramSet]) -> list[Source]:
    return list(dict.fromkeys(s for one in sets for s in (*one.trees, *one.archives)))


def _comes_along(name: str) -> bool:
    if _UNUSED.fullmatch(name):
        return False
    return is_library(name) or _TOOLCHAIN.fullmatch(name) is not None


def _matching(packages: Sequence[Entry], patterns: Iterable[str]) -> Iterator[str]:
    """Paths of files that match.

    Raises:
        MachineError: nothing matches one of the patterns.
    """
    for pattern in patterns:
        found = [
            path
            for entry in packages
            for path in sorted(entry.digests)
            if re.fullmatch(pattern, path)
        ]
        if not found:
            raise MachineError(
                f"None of the unpacked packages has {pattern} (a regular expression).",
                "The distribution has changed: `hypertare image build --refresh` tries its newest "
                "packages; if that does not help, report it with the distribution's release.",
            )
        yield from found


def _plain(packages: Sequence[Entry], patterns: Iterable[str]) -> Iterator[cpio.Member]:
    owners = {path: entry for entry in packages for path in entry.digests}
    for path in _matching(packages, patterns):
        yield cpio.file(path, owners[path].read(path))


def _links(packages: Sequence[Entry], one: ProgramSet) -> Iterator[cpio.Member]:
    """Symbolic links to what the set has: a program's other names."""
    patterns = [re.compile(pattern) for pattern in (*one.programs, *one.files)]
    for entry in packages:
        for path in sorted(entry.path.rglob("*")):
            name = str(path.relative_to(entry.path))
            if path.is_symlink() and any(pattern.fullmatch(name) for pattern in patterns):
                yield cpio.link(name, str(path.readlink()))


def _at_their_places(members: Iterable[cpio.Member]) -> list[cpio.Member]:
    """Moves programs from `bin` to `usr/bin` and adds links, as an installed distribution has them."""
    placed = {}
    for member in members:
        path = f"usr/{member.path}" if member.path.startswith("bin/") else member.path
        placed[path] = cpio.Member(path, member.mode, member.data, member.device)
    for name in (*SHELL.commands, "sh"):
        if name == "sh" or f"usr/bin/{name}" in placed:
            placed[f"bin/{name}"] = cpio.link(f"bin/{name}", f"/usr/bin/{name}")
    placed["usr/bin/sh"] = cpio.link("usr/bin/sh", "dash")
    if "usr/bin/gcc" in placed:
        placed["usr/bin/cc"] = cpio.link("usr/bin/cc", "gcc")
        # Linker scripts know libraries by the directory's old name.
        old = f"lib/{ARCH.multiarch}"
        placed[old] = cpio.link(old, f"/{ARCH.libraries}")
    return list(placed.values())
