"""QEMU's own stable releases, which the distribution keeps among its changes to QEMU.

The file of these changes goes from the archive with each point release. The one that comes in its place
has another name and hash, and the same stable releases with perhaps more. So what is asked for is no
file: it is these releases, by a hash over their text, out of the changes that lie beside the package now.
"""

from __future__ import annotations

import hashlib
import lzma
import re
import tarfile
from collections.abc import Sequence
from pathlib import Path

from hypertare.base.arch import ARCH
from hypertare.base.errors import MachineError
from hypertare.machines.image.cache import Cache, Entry, Progress
from hypertare.machines.image.package import download_beside, look_up

RELEASES = "QEMU 7.2.1 to 7.2.22"
RELEASE_FILES = tuple(f"v7.2.{number}.diff" for number in range(1, 23))
RELEASES_SHA256 = "ab5b39d1b15dfd7f217fd84130a4d66605d080bcb4983b555a51068d3bcb2220"
"""Of their texts, one after the other."""

_KEY = f"qemu-stable-{RELEASES_SHA256[:12]}"
_FOLDER = "debian/patches"
_CHANGES = "qemu_7.2+dfsg-*.debian.tar.xz"
_NUMBER = re.compile(r"\d+")
_BUILT_AGAIN = re.compile(r"\+b\d+$")
_MOST = 8 << 20
"""Bytes of one release."""
_DO = (
    "Take a newer hypertare; or a file qemu_7.2+dfsg-...debian.tar.xz from snapshot.debian.org (package "
    "qemu), and name its directory: hypertare image build emulator --sources DIR"
)


def fetch_stable_releases(cache: Cache, progress: Progress, given: Path | None = None) -> Entry:
    """The releases as files, from the cache or out of the distribution's changes.

    `given`: a directory that may have a file of changes, which then is taken.

    Raises:
        MachineError: there are no changes to be had, or not with these releases in them.
    """

    def fill(place: Path) -> dict[str, str]:
        changes = _given(given) or _downloaded(place, progress)
        texts = _releases(changes)
        (place / changes.name).unlink(missing_ok=True)
        for name, text in zip(RELEASE_FILES, texts, strict=True):
            (place / name).write_bytes(text)
        return {"name": RELEASES}

    return cache.sound("sources", _KEY) or cache.make(
        "sources", _KEY, f"source of {RELEASES}", fill, progress
    )


def _given(folder: Path | None) -> Path | None:
    """The newest file of changes in a directory, if it has one."""
    found = folder.glob(_CHANGES) if folder else ()
    return max(found, key=lambda path: [*map(int, _NUMBER.findall(path.name))], default=None)


def _downloaded(place: Path, progress: Progress) -> Path:
    progress(f"downloading the source of {RELEASES}")
    version = _BUILT_AGAIN.sub("", look_up(ARCH.qemu_package).version.partition(":")[2])
    try:
        return download_beside(ARCH.qemu_package, f"qemu_{version}.debian.tar.xz", place)
    except MachineError as error:
        raise MachineError(error.what, " ".join(filter(None, (error.do, _DO)))) from error


def _releases(changes: Path) -> Sequence[bytes]:
    """Their texts. No list vouches for the file: nothing of it is written down before its hash is known."""
    try:
        with tarfile.open(changes, "r:xz") as opened:
            texts = []
            for name in RELEASE_FILES:
                file = opened.extractfile(f"{_FOLDER}/{name}")
                if file is None:
                    raise KeyError(f"{_FOLDER}/{name} is no file")
                texts.append(file.read(_MOST))
    except (OSError, EOFError, KeyError, lzma.LZMAError, tarfile.TarError) as error:
        raise MachineError(f"{changes.name} lacks {RELEASES}: {error}.", _DO) from error
    digest = hashlib.sha256(b"".join(texts)).hexdigest()
    if digest != RELEASES_SHA256:
        raise MachineError(
            f"{changes.name} has other texts of {RELEASES}: SHA-256 {digest}, expected {RELEASES_SHA256}.",
            _DO,
        )
    return texts
