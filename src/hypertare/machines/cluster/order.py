"""The messages between the controller and a worker. A file is named by its SHA-256."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version

from hypertare.machines.executor import Booted

PACKAGES = ("hypertare", "distributed")
"""Packages that must have the same version on the controller, the scheduler and all workers."""
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
    """A worker: its address, and the names by which a user knows it."""

    address: str
    name: str
    host: str

    def __str__(self) -> str:
        named = "" if self.name == self.address else f"{self.name}, "
        return f"{self.address} ({named}host {self.host})"


@dataclass(frozen=True)
class Answer:
    """A worker's answer to an order: the records of the boot, or the reason why it did not boot.

    `missing` are files that it lacks, `damaged` files whose content in its cache had changed. `versions`
    are its package versions if they differ from those of the run.
    """

    worker: Worker
    booted: Booted | None = None
    missing: tuple[str, ...] = ()
    damaged: tuple[str, ...] = ()
    versions: Mapping[str, str | None] = field(default_factory=dict)


def versions() -> dict[str, str | None]:
    """Returns the versions of `PACKAGES` in this process; None for a package that is not installed."""
    found: dict[str, str | None] = dict.fromkeys(PACKAGES)
    for name in PACKAGES:
        with suppress(PackageNotFoundError):
            found[name] = version(name)
    return found
