"""BIRD, the routing daemon, from the distribution's package: for guests as an archive behind their
initramfs, for nodes of this host as files that run from where they lie.
"""

from __future__ import annotations

import hashlib
import json
import stat
from dataclasses import dataclass
from pathlib import Path

from hypertare.base.arch import ARCH
from hypertare.machines.image import cpio
from hypertare.machines.image.cache import Cache, Entry, Progress
from hypertare.machines.image.userland import Userland, fetch_all, fetched_all

VERSION = 2
"""Of what is taken from the packages; part of the key."""

_PACKAGES = ("bird2",)
_PROGRAM = "usr/sbin/bird"
_ARCHIVE = "bird.cpio"
_CARRIED = "carried.cpio"
_PLACE = "guest/bird.cpio"
"""Of the archive in the root of a machine that has guests of its own."""
_ROOT = "root"


IN_GUEST = (f"/{_PROGRAM}",)


@dataclass(frozen=True)
class Bird:
    """The daemon in the cache."""

    entry: Entry

    @property
    def archive(self) -> Path:
        """The archive that a guest's kernel unpacks after the guest's own initramfs."""
        return self.entry.path / _ARCHIVE

    @property
    def in_guest(self) -> tuple[str, ...]:
        """How a guest starts it."""
        return IN_GUEST

    @property
    def here(self) -> tuple[str, ...]:
        """How a node of this host starts it."""
        root = self.entry.path / _ROOT
        libraries = root / ARCH.libraries
        return (
            *(str(libraries / ARCH.loader_name), "--library-path", str(libraries)),
            str(root / _PROGRAM),
        )

    @property
    def carried(self) -> Path:
        """The archive for a machine that has guests of its own: it holds `archive`, with which they are
        booted.
        """
        return self.entry.path / _CARRIED


@dataclass(frozen=True)
class Start:
    """How a node of a machine starts the daemon, and how a guest of the machine, which has it from
    the archive.
    """

    here: tuple[str, ...]
    in_guest: tuple[str, ...]
    archive: Path


ON_EMULATED = Start(IN_GUEST, IN_GUEST, Path("/") / _PLACE)
"""On an emulated machine, whose root has either archive."""


def build(progress: Progress = lambda _: None, *, cache: Cache | None = None) -> Bird:
    """The daemon, from the cache or made now.

    Raises:
        MachineError: the package cannot be had, or lacks what it should have.
        DamagedError: a file is not what was put there.
    """
    store = cache or Cache()
    packages = fetched_all(_PACKAGES, store)
    known = store.find("images", _key(packages)) if packages else None
    if known:
        return Bird(known)
    packages = fetch_all(_PACKAGES, store, progress)
    members = Userland(packages).members([_PROGRAM])
    what = f"BIRD {packages[0].facts['version']}"
    return Bird(
        store.make("images", _key(packages), what, lambda place: _fill(place, members), progress)
    )


def _key(packages: list[Entry]) -> str:
    inputs = ["bird", VERSION, sorted(entry.key for entry in packages)]
    return hashlib.sha256(json.dumps(inputs).encode()).hexdigest()[:24]


def _fill(place: Path, members: list[cpio.Member]) -> dict[str, str]:
    archive = cpio.archive(members)
    (place / _ARCHIVE).write_bytes(archive)
    (place / _CARRIED).write_bytes(cpio.archive([cpio.file(_PLACE, archive)]))
    for member in members:
        # The loader is started by its file's own name here.
        if stat.S_ISREG(member.mode):
            file = place / _ROOT / member.path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(member.data)
            file.chmod(0o755)
    return {}
