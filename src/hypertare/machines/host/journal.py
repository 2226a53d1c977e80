"""Which settings of this host are changed at the moment, and how they were before.

It stands in /run, which a reboot clears as it clears the settings themselves. Whoever changes
something holds the lock, which the kernel drops when its process ends: a journal without a lock is
one that nobody looks after any more.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from hypertare.base.errors import MachineError
from hypertare.base.host_files import Host
from hypertare.machines.host import kvm
from hypertare.machines.host.huge_pages import find_huge_pages

FOLDER = "/run/hypertare"
_GLANCES_S = 0.5
_GLANCE_S = 0.02
"""Seconds between two attempts at the lock: a process that checks the lock holds it for a moment."""


@dataclass(frozen=True)
class Before:
    """The settings of this host as they were before a run; None for a setting that was not changed.

    `huge_pages` is the number of pages that were set aside.
    """

    module: kvm.State | None = None
    huge_pages: int | None = None

    def described(self, host: Host) -> list[str]:
        """Returns a sentence for each setting that was changed: its old and its present value."""
        found = []
        if self.module is not None:
            parameter = self.module.parameter
            was = self.module.parameters.get(parameter)
            now = kvm.find(host)
            found.append(
                f"{self.module.name} had {parameter}={was} "
                f"and {f'now has {now.described}' if now else 'is not loaded now'}"
            )
        if self.huge_pages is not None:
            pages = find_huge_pages(host)
            found.append(
                f"{self.huge_pages} pages of 2 MB were set aside, now it is "
                f"{pages.total if pages else 'none'}"
            )
        return found


def write(host: Host, before: Before) -> None:
    """Says what is about to be changed, before it is; nothing to say removes the journal.

    Raises:
        MachineError: it cannot be written or removed; it is then as it was.
    """
    path, is_nothing = _path(host), before == Before()
    try:
        if is_nothing:
            path.unlink(missing_ok=True)
        else:
            _replace(path, json.dumps(asdict(before)))
    except OSError as error:
        raise MachineError(
            f"{path}, which says how this host's settings were before a run changed them, cannot be "
            f"{'removed' if is_nothing else 'written'}: {error.strerror}.",
            f"As root see to room and to the right to write there: df {FOLDER}; mount | grep /run",
        ) from None


def _replace(path: Path, text: str) -> None:
    written = path.with_suffix(".new")
    try:
        with written.open("w") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        written.replace(path)
    except OSError:
        with suppress(OSError):
            written.unlink()
        raise


def read(host: Host) -> Before:
    """Raises:
    MachineError: it is there but cannot be understood.
    """
    path = _path(host)
    try:
        found = json.loads(path.read_text())
        module = found["module"]
        if module is not None:
            device = module["device"] and kvm.Device(**module["device"])
            module = kvm.State(module["name"], dict(module["parameters"]), device or None)
        return Before(module, found["huge_pages"])
    except FileNotFoundError:
        return Before()
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise MachineError(
            f"{path}, which says how this host's settings were before a run changed them, cannot be "
            f"read: {error}",
            "See /sys/module/kvm_*/parameters and /proc/sys/vm/nr_hugepages, then remove the file.",
        ) from None


def is_held(host: Host) -> bool:
    """Whether a keeper looks after the changed settings."""
    try:
        folder = os.open(host.at(FOLDER), os.O_RDONLY | os.O_DIRECTORY)
    except OSError:
        return False
    try:
        fcntl.flock(folder, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(folder)
    return False


@contextmanager
def held(host: Host) -> Iterator[None]:
    """Holds the lock.

    Raises:
        MachineError: someone else does, or /run cannot be written.
    """
    folder = host.at(FOLDER)
    try:
        lock = _locked(folder)
    except BlockingIOError:
        raise held_by_another() from None
    except OSError as error:
        raise MachineError(
            f"{folder} cannot be written: {error.strerror}. Before a setting of this host is "
            "changed, how it was is written down there.",
            "Run as root.",
        ) from None
    try:
        yield
        # With nothing to remember, nothing is left here.
        with suppress(OSError):
            folder.rmdir()
    finally:
        os.close(lock)


def held_by_another() -> MachineError:
    return MachineError(
        "another run has changed settings of this host and will put them back.",
        "Wait for its end: two runs cannot have them at the same time.",
    )


def _locked(folder: Path) -> int:
    """The folder, made where it is not there, open and locked."""
    deadline = time.monotonic() + _GLANCES_S
    while True:
        folder.mkdir(mode=0o755, exist_ok=True)
        lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        # Whoever had it may have removed the folder in between.
        with suppress(BlockingIOError, FileNotFoundError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.path.samestat(os.fstat(lock), folder.stat()):
                return lock
        os.close(lock)
        if time.monotonic() > deadline:
            raise BlockingIOError
        time.sleep(_GLANCE_S)


def _path(host: Host) -> Path:
    return host.at(FOLDER) / "before.json"
