"""A worker's side: functions that the cluster calls by their names, the files that it was sent, in its own
cache by their SHA-256, and the processes that are started.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import socket
import threading
from collections.abc import Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any

import zstandard
from distributed import get_worker

from hypertare.base.errors import MachineError, writing
from hypertare.machines.cluster.order import PART, Answer, Order, Worker, versions
from hypertare.machines.executor import Boot, BootFiles, Processes
from hypertare.machines.image.cache import Cache, Entry

_CONTENT = "content"
_MODE = 0o755
"""QEMU runs as a user of its own, and some are programs."""


class Brought:
    """Keeps files, and gives out those whose content is what their name says.

    A file is read once, and again when anything of it may have changed; an entry is held, so that the
    collector leaves it, for as long as this object lives.
    """

    def __init__(self, cache: Cache | None = None) -> None:
        self.cache = cache or Cache()
        self._sound: dict[Path, tuple[int, ...]] = {}
        self._held: dict[str, Entry] = {}
        self._arriving: dict[str, IO[bytes]] = {}
        self._lock = threading.RLock()

    def look(self, digests: Sequence[str]) -> tuple[list[str], list[str]]:
        """Returns the digests of missing files and of damaged ones. Damaged files are removed and count as
        missing.
        """
        missing, damaged = [], []
        with self._lock:
            for digest in dict.fromkeys(digests):
                entry = self.cache.find("brought", digest)
                if entry is not None and self._is_sound(entry.path / _CONTENT, digest):
                    self._held[digest] = entry
                    continue
                missing.append(digest)
                if entry is not None:
                    damaged.append(digest)
                    self._held.pop(digest, None)
                    self.cache.drop(entry)
        return missing, damaged

    def path(self, digest: str) -> Path:
        """Returns the path of a file that `look` has found."""
        return self._held[digest].path / _CONTENT

    def folder(self, names: Mapping[str, str]) -> Path:
        """A directory in which files that are here have these names.

        Raises:
            MachineError: the cache cannot be written.
        """
        key = hashlib.sha256(repr(sorted(names.items())).encode()).hexdigest()

        def fill(place: Path) -> dict[str, str]:
            for name, digest in names.items():
                (place / name).parent.mkdir(exist_ok=True)
                (place / name).parent.chmod(_MODE)
                shutil.copyfile(self.path(digest), place / name)
                (place / name).chmod(_MODE)
            return {}

        with self._lock:
            entry = self.cache.find("brought", key)
            if entry is not None and not all(
                self._is_sound(entry.path / name, digest) for name, digest in names.items()
            ):
                self.cache.drop(entry)
                entry = None
            entry = entry or self.cache.make(
                "brought", key, "libraries and firmware of an emulator", fill
            )
            self._held[key] = entry
            return entry.path

    def take(self, digest: str, part: bytes, *, first: bool, last: bool) -> None:
        """The next part of a file that is sent.

        Raises:
            MachineError: the whole is something else, or the cache cannot be written.
        """
        with self._lock, writing(self.cache.root):
            if first:
                self._forget(digest)
                self.cache.root.mkdir(parents=True, exist_ok=True)
                self._arriving[digest] = TemporaryFile(dir=self.cache.root)  # noqa: SIM115
            file = self._arriving[digest]
            file.write(part)
            if not last:
                return
            try:
                self._store(digest, file)
            finally:
                self._forget(digest)

    def _store(self, digest: str, file: IO[bytes]) -> None:
        file.seek(0)
        found = hashlib.file_digest(file, "sha256").hexdigest()  # type: ignore[arg-type]
        if found != digest:
            raise MachineError(
                f"A file arrived otherwise than it was sent: SHA-256 {found[:16]} and not {digest[:16]}."
            )

        def fill(place: Path) -> dict[str, str]:
            file.seek(0)
            with (place / _CONTENT).open("wb") as to:
                shutil.copyfileobj(file, to)
            (place / _CONTENT).chmod(_MODE)
            return {}

        what = f"a file of a run elsewhere, {file.tell()} bytes"
        self._held[digest] = self.cache.make("brought", digest, what, fill)

    def _forget(self, digest: str) -> None:
        file = self._arriving.pop(digest, None)
        if file is not None:
            file.close()

    def _is_sound(self, path: Path, digest: str) -> bool:
        try:
            with path.open("rb") as file:
                found = os.fstat(file.fileno())
                # The time of the last change of any kind cannot be set.
                signature = (found.st_dev, found.st_ino, found.st_size, found.st_ctime_ns)
                if self._sound.get(path) == signature:
                    return True
                sound = hashlib.file_digest(file, "sha256").hexdigest() == digest
        except OSError:
            return False
        if sound:
            self._sound[path] = signature
        return sound


_UNWANTED = ("cancelled", "resumed", "released", "forgotten")
"""States of a task that nobody waits for."""


@cache
def _brought() -> Brought:
    return Brought()


@cache
def _processes() -> Processes:
    return Processes()


def boot(order: Order, wanted: Mapping[str, str | None]) -> Answer:
    """Boots a machine, unless files are missing here or `wanted` versions are not this process's.

    Raises:
        MachineError: QEMU cannot be started here.
    """
    me = get_worker()
    worker = Worker(me.address, str(me.name), socket.gethostname())
    own = versions()
    if own != wanted:
        return Answer(worker, versions=own)
    brought = _brought()
    missing, damaged = brought.look([*order.digests()])
    if missing:
        return Answer(worker, missing=tuple(missing), damaged=tuple(damaged))
    try:
        files = BootFiles(
            brought.path(order.agent),
            brought.path(order.kernel),
            tuple(map(brought.path, order.initramfs)),
            brought.path(order.hypervisor) if order.hypervisor else None,
            brought.path(order.emulator),
            brought.folder(order.runtime),
        )
        made = Boot(order.options, order.limit_s, order.steps, files)
        booted = _processes().boot(made, partial(_is_wanted, me, me.get_current_task()))
    except MachineError as error:
        raise MachineError(f"Worker {worker}: {error.what}", error.do) from None
    return Answer(worker, booted)


def missing(digests: Sequence[str]) -> list[str]:
    """Files that are not here, of these."""
    return _brought().look(digests)[0]


def take(digest: str, packed: bytes, first: bool, last: bool) -> None:
    """The next part of a file, compressed."""
    part = zstandard.ZstdDecompressor().decompress(packed, max_output_size=PART)
    _brought().take(digest, part, first=first, last=last)


def _is_wanted(me: Any, key: object) -> bool:
    """Whether the scheduler still waits for a task of this worker: it does not when the run was ended
    and when whoever asked is gone.
    """
    task = me.state.tasks.get(key)
    return task is not None and task.state not in _UNWANTED
