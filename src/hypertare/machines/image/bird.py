"""BIRD, the routing daemon, from the distribution's package: for guests as an archive behind their
initramfs, for nodes of this host as files that run from where they lie.
"""

from __future__ import annotations

import hashlib
import json
import stat
from dataclasses import dataclass
from functools import partial
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
class Start:
    """How a node of a machine starts the daemon, and how a guest of the machine, whose kernel unpacks the
    archive after the guest's own initramfs.
    """

    here: tuple[str, ...]
    in_guest: tuple[str, ...]
    archive: Path


@dataclass(frozen=True)
class Bird(Start):
    """The daemon in the cache. `carried` is the archive for a machine that has guests of its own: it holds
    `archive`, with which they are booted.
    """

    carried: Path
    entry: Entry


ON_EMULATED = Start(IN_GUEST, IN_GUEST, Path("/") / _PLACE)
"""On an emulated machine, whose root has either archive."""


def build(progress: Progress = lambda _: None) -> Bird:
    """The daemon, from the cache or made now.

    Raises:
        MachineError: the package cannot be had, or lacks what it should have.
        DamagedError: a file is not what was put there.
    """
    store = Cache()
    packages = fetched_all(_PACKAGES, store)
    entry = store.find("images", _key(packages)) if packages else None
    if entry is None:
        packages = fetch_all(_PACKAGES, store, progress)
        members = Userland(packages).members([_PROGRAM])
        what = f"BIRD {packages[0].facts['version']}"
        fill = partial(_fill, members)
        entry = store.make("images", _key(packages), what, fill, progress)
    root = entry.path / _ROOT
    loader = (str(root / ARCH.libraries / ARCH.loader_name), "--library-path")
    return Bird(
        (*loader, str(root / ARCH.libraries), str(root / _PROGRAM)),
        IN_GUEST,
        entry.path / _ARCHIVE,
        entry.path / _CARRIED,
        entry,
    )


def _key(packages: list[Entry]) -> str:
    inputs = ["bird", VERSION, sorted(entry.key for entry in packages)]
    return hashlib.sha256(json.dumps(inputs).encode()).hexdigest()[:24]


def _fill(members: list[cpio.Member], place: Path) -> dict[str, str]:
    archive = cpio.archive(members)
    (place / _ARCHIVE).write_bytes(archive)
    (place / _CARRIED).write_bytes(cpio.archive([cpio.file(_PLACE, archive)]))
    # Without the links: the loader is started by its file's own name here.
    cpio.unpack((one for one in members if stat.S_ISREG(one.mode)), place / _ROOT)
    return {}
