"""What goes to a worker and what comes back. A file is named by its SHA-256."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version

from hypertare.machines.executor import Booted

PACKAGES = ("hypertare", "distributed")
"""Of one version everywhere."""
PART = 8 << 20
"""Bytes of a file in one message, before they are compressed."""


@dataclass(frozen=True)
class Order:
    """One boot (`executor.Boot`). `runtime`: the emulator's libraries and firmware by their names."""

    options: tuple[str, ...]
    limit_s: float
    steps: bytes
    agent: str
    kernel: str
    initramfs: tuple[str, ...]
    hypervisor: str | None
    emulator: str
    runtime: Mapping[str, str]

    def digests(self) -> Iterator[str]:
        yield from (self.agent, self.kernel, *self.initramfs, self.emulator)
        if self.hypervisor is not None:
            yield self.hypervisor
        yield from self.runtime.values()


@dataclass(frozen=True)
class Worker:
    """By its address, and as a person knows it."""

    address: str
    name: str
    host: str

    def __str__(self) -> str:
        named = "" if self.name == self.address else f"{self.name}, "
        return f"{self.address} ({named}host {self.host})"


@dataclass(frozen=True)
class Answer:
    """A worker's: its records, or why it has none. `damaged`: files that were in its cache and are not
    what was put there. `versions`: its own, where they are not the run's.
    """

    worker: Worker
    booted: Booted | None = None
    missing: tuple[str, ...] = ()
    damaged: tuple[str, ...] = ()
    versions: Mapping[str, str | None] = field(default_factory=dict)


def versions() -> dict[str, str | None]:
    """Of this process."""
    return {name: _version(name) for name in PACKAGES}


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None
