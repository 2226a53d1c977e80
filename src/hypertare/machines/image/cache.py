"""Things made once and kept: packages, sources, kernels, initramfs archives, the emulator, records of
virtual time, modelled page walks, files that a worker of a cluster was sent.

An entry is a directory that appears whole, by a rename, or not at all. It holds `entry.json` with what it
is and the SHA-256 of every file in it; a file is checked when it is read, or all of an entry before its
files are used by their paths, so a damaged one is noticed and made again. Whoever uses an entry holds a
shared lock on its directory; the collector takes away only what it can lock alone. So does whoever fills a
new one, and what is left unlocked was left by a process that is no more. Each entry has a lock of its own
for who makes it: two processes never make the same one, and nobody waits for an entry that is not wanted.
The kernel drops locks when a process ends, however it ends.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, get_args

from hypertare.base.errors import MachineError
from hypertare.base.paths import cache_dir

Kind = Literal[
    "names",
    "packages",
    "sources",
    "kernels",
    "modules",
    "images",
    "emulators",
    "virtual",
    "walks",
    "roots",
    "brought",
]
KINDS: tuple[Kind, ...] = get_args(Kind)
Progress = Callable[[str], None]
_META = "entry.json"
_DAY_S = 86400.0


class DamagedError(Exception):
    """A cached file is not what was put there."""

    def __init__(self, entry: Entry, name: str) -> None:
        super().__init__(f"{entry.path / name} is damaged")
        self.entry = entry


class _Hold:
    """A shared lock on a directory, for as long as this object lives."""

    def __init__(self, path: Path) -> None:
        self._fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        fcntl.flock(self._fd, fcntl.LOCK_SH)

    def is_of(self, path: Path) -> bool:
        """Whether the directory still stands there: the collector may have been faster."""
        return _is_open(self._fd, path)

    def __del__(self) -> None:
        with suppress(AttributeError, OSError):
            os.close(self._fd)


def _is_open(descriptor: int, path: Path) -> bool:
    """Whether the path still leads to what the descriptor has open."""
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except OSError:
        return False


@dataclass(frozen=True)
class Entry:
    """A cached thing; it cannot be collected while this object lives."""

    kind: Kind
    key: str
    path: Path
    what: str
    facts: dict[str, str]
    digests: dict[str, str]
    _hold: _Hold | None = field(default=None, repr=False, compare=False)

    @property
    def stands(self) -> bool:
        """Whether it is what is in its place, and not one that was made after it."""
        return self._hold is None or self._hold.is_of(self.path)

    def is_sound(self, name: str) -> bool:
        """Whether a file of this entry is what was put there."""
        try:
            with (self.path / name).open("rb") as opened:
                return hashlib.file_digest(opened, "sha256").hexdigest() == self.digests.get(name)
        except OSError:
            return False

    def read(self, name: str) -> bytes:
        """A file's checked content.

        Raises:
            DamagedError: the file is missing or changed.
        """
        try:
            data = (self.path / name).read_bytes()
        except OSError as error:
            raise DamagedError(self, name) from error
        if hashlib.sha256(data).hexdigest() != self.digests.get(name):
            raise DamagedError(self, name)
        return data


@dataclass(frozen=True)
class Listed:
    """An entry as the user sees it. Times are seconds since the epoch, `size` is bytes."""

    kind: Kind
    key: str
    path: Path
    what: str
    size: int
    made: float
    used: float


_PATIENCE_S = 3600.0
_REPORT_EVERY_S = 30.0
"""Between two words on whom is waited for."""


def _await(lock: int, file: Path, progress: Progress) -> None:
    """Takes a lock, and says who has it meanwhile.

    Raises:
        MachineError: nobody builds for so long.
    """
    begun, reported = time.monotonic(), -_REPORT_EVERY_S
    while True:
        with suppress(BlockingIOError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        waited, holder = time.monotonic() - begun, _holder(lock)
        if waited > _PATIENCE_S:
            raise MachineError(
                f"{file} has been locked for {_PATIENCE_S / 60:.0f} minutes{holder}.",
                "End what holds it, or take another cache: HYPERTARE_CACHE=DIR.",
            )
        if waited - reported >= _REPORT_EVERY_S:
            reported = waited
            since = f" ({waited:.0f} s so far)" if waited >= 1 else ""
            progress(f"waiting for another build{holder}{since}")
        time.sleep(_LOOK_S)


_LOOK_S = 0.05


def _holder(lock: int) -> str:
    """Which process has a file locked, as the kernel says; nothing where it does not, as across hosts."""
    number = f":{os.fstat(lock).st_ino} "
    try:
        held = next(
            line.split()
            for line in Path("/proc/locks").read_text().splitlines()
            if " FLOCK " in line and "->" not in line and number in line
        )
        process = next(word for word in held[4:5] if word.isdigit())
        words = Path(f"/proc/{process}/cmdline").read_bytes().decode(errors="replace").split("\0")
    except (OSError, StopIteration):
        return ""
    command = "".join(c if c.isprintable() else "?" for c in " ".join(words).strip())
    return f": process {process}, {command[:_MOST_OF_COMMAND]}"


_MOST_OF_COMMAND = 120


class Cache:
    """The cache under `root`."""

    def __init__(self, root: Path | None = None) -> None:
        self.root = root or cache_dir()

    def find(self, kind: Kind, key: str) -> Entry | None:
        """The entry, held and marked as used; its files are not yet checked."""
        path = self.root / kind / key
        try:
            hold = _Hold(path)
            meta = json.loads((path / _META).read_bytes())
            entry = Entry(kind, key, path, meta["what"], meta["facts"], meta["digests"], hold)
        except (OSError, ValueError, KeyError, TypeError):
            return None
        if not hold.is_of(path):
            return None
        with suppress(OSError):
            os.utime(path)
        return entry

    def sound(self, kind: Kind, key: str) -> Entry | None:
        """The entry, with all its files checked; a damaged one is taken away."""
        entry = self.find(kind, key)
        if entry and not all(entry.is_sound(name) for name in entry.digests):
            self.drop(entry)
            return None
        return entry

    def make(
        self,
        kind: Kind,
        key: str,
        what: str,
        fill: Callable[[Path], dict[str, str]],
        progress: Progress = lambda _: None,
    ) -> Entry:
        """The entry that is not there: made now, or by another process that was faster. One that is there
        and is of no use has to be dropped before.

        `fill` puts the files into a directory and returns facts about them; `progress` is said whom this
        waits for.

        Raises:
            MachineError: the disk is full or the cache cannot be written.
        """
        place = self.root / kind / key
        with self._making(kind, key, progress):
            entry = self.find(kind, key)
            if entry is not None:
                return entry
            with self._writable(), self._at_work() as work:
                facts = fill(work)
                digests = dict(_digests(work))
                meta = {"what": what, "facts": facts, "digests": digests}
                (work / _META).write_text(json.dumps(meta), encoding="utf-8")
                work.chmod(0o755)
                with self._moving():
                    # One whose `entry.json` cannot be read.
                    self._take_away(place)
                    place.parent.mkdir(exist_ok=True)
                    work.rename(place)
            entry = self.find(kind, key)
        if entry is None:
            raise MachineError(f"{place} vanished while it was made.", "Try again.")
        return entry

    def drop(self, entry: Entry) -> None:
        """Takes an entry away, unless another stands in its place by now. A process that has its files open
        keeps them."""
        with self._moving():
            if entry.stands:
                self._take_away(entry.path)

    def _take_away(self, place: Path) -> None:
        if place.exists():
            with self._at_work() as doomed:
                place.rename(doomed / place.name)

    @contextmanager
    def _making(self, kind: Kind, key: str, progress: Progress) -> Iterator[None]:
        """Only one process at a time makes this entry. Clears what a killed one left."""
        file = self.root / "locks" / kind / key
        while True:
            lock = self._lock_file(file)
            try:
                _await(lock, file, progress)
                # Who had it before has taken the file away.
                if _is_open(lock, file):
                    self._clear()
                    try:
                        yield
                    finally:
                        file.unlink(missing_ok=True)
                    return
            finally:
                os.close(lock)

    @contextmanager
    def _moving(self) -> Iterator[None]:
        """Only one process at a time puts entries into their places or takes them away."""
        file = self.root / "lock-moving"
        lock = self._lock_file(file)
        try:
            _await(lock, file, lambda _: None)
            yield
        finally:
            os.close(lock)

    def _lock_file(self, file: Path) -> int:
        with self._writable():
            file.parent.mkdir(parents=True, exist_ok=True)
            return os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)

    def listing(self) -> list[Listed]:
        """What is cached, last used first."""
        found = [_listed(kind, path) for kind in KINDS for path in self._directories(kind)]
        return sorted(found, key=lambda listed: listed.used, reverse=True)

    def collect(self, keep_days: float, *, dry_run: bool = False) -> list[Listed]:
        """Removes what was not used for so long and is not in use; returns it."""
        before = time.time() - keep_days * _DAY_S
        old = [listed for listed in self.listing() if listed.used <= before]
        if dry_run:
            return [listed for listed in old if _is_free(listed.path)]
        if not old:
            return []
        gone = []
        with self._writable():
            self._clear()
            for listed in old:
                with self._moving(), _alone(listed.path) as free:
                    if free:
                        self._take_away(listed.path)
                        gone.append(listed)
        return gone

    def _directories(self, kind: Kind) -> list[Path]:
        try:
            return [path for path in (self.root / kind).iterdir() if path.is_dir()]
        except OSError:
            return []

    @contextmanager
    def _at_work(self) -> Iterator[Path]:
        """A new directory that nobody clears as long as this lasts."""
        work = self.root / "work"
        work.mkdir(exist_ok=True)
        while True:
            place = Path(tempfile.mkdtemp(dir=work))
            # Who clears may have been faster than our lock.
            with suppress(FileNotFoundError):
                hold = _Hold(place)
                if hold.is_of(place):
                    break
        try:
            yield place
        finally:
            shutil.rmtree(place, ignore_errors=True)
            del hold

    def _clear(self) -> None:
        """Takes away what nobody works on any more."""
        work = self.root / "work"
        for place in work.iterdir() if work.exists() else ():
            with _alone(place) as free:
                if free:
                    shutil.rmtree(place, ignore_errors=True)

    @contextmanager
    def _writable(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
                raise MachineError(
                    f"No room in the cache directory {self.root}: {error.strerror}.",
                    "Free about 1 GB there (`hypertare image gc --all` removes what is cached), "
                    "or name another directory with HYPERTARE_CACHE.",
                ) from error
            raise MachineError(
                f"The cache directory {self.root} cannot be written: {error.strerror} "
                f"({error.filename}).",
                "Name another directory with HYPERTARE_CACHE.",
            ) from error


def _digests(root: Path) -> Iterator[tuple[str, str]]:
    for path in sorted(root.rglob("*")):
        if path.is_file() and not path.is_symlink():
            with path.open("rb") as opened:
                yield str(path.relative_to(root)), hashlib.file_digest(opened, "sha256").hexdigest()


def _listed(kind: Kind, path: Path) -> Listed:
    try:
        what = str(json.loads((path / _META).read_bytes())["what"])
        made = (path / _META).stat().st_mtime
    except (OSError, ValueError, KeyError, TypeError):
        what, made = "damaged", 0.0
    size = sum(p.lstat().st_blocks * 512 for p in path.rglob("*"))
    return Listed(kind, path.name, path, what, size, made, path.stat().st_mtime)


@contextmanager
def _alone(path: Path) -> Iterator[bool]:
    """Whether nobody else uses the directory, now and while this lasts."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except FileNotFoundError:
        yield False
        return
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True
    finally:
        os.close(fd)


def _is_free(path: Path) -> bool:
    with _alone(path) as free:
        return free
