"""What the machine gives: CPUs, images, chance, and what was measured before."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

from hypertare.base.errors import InputError
from hypertare.base.level import Cell
from hypertare.protocol import plan


class Bootable(Protocol):
    """What a guest or a machine boots from, and what identifies it."""

    @property
    def kernel(self) -> Path: ...
    @property
    def initramfs(self) -> Path: ...
    @property
    def further(self) -> tuple[Path, ...]: ...
    @property
    def hypervisor(self) -> Path | None: ...
    @property
    def kernel_name(self) -> str: ...
    @property
    def modules(self) -> frozenset[str]: ...
    @property
    def digest(self) -> str: ...
    @property
    def programs(self) -> str: ...


class Emulating(Protocol):
    """The emulator of virtual time, and what identifies it."""

    @property
    def program(self) -> Path: ...
    @property
    def key(self) -> str: ...
    @property
    def content(self) -> str: ...


class Startable(Protocol):
    """A routing daemon: how it is started here and in a guest, and what a guest has it from."""

    @property
    def here(self) -> tuple[str, ...]: ...
    @property
    def in_guest(self) -> tuple[str, ...]: ...
    @property
    def archive(self) -> Path: ...


class ContainerImage(Protocol):
    """An image of the user's container engine, whose files are in a directory of this host."""

    @property
    def root(self) -> Path: ...


class Elsewhere(Protocol):
    """A host that is reached, and how errors call it."""

    @property
    def described(self) -> str: ...


@dataclass(frozen=True)
class Chance:
    """What chance moves between two boots of a real machine, here moved by a seed: addresses,
    ports, and where in the timer's period a trial starts.

    Layouts of address spaces and hash seeds follow from the machine's own random numbers, which
    have the same seed.
    """

    seed: int

    def mac(self, index: int, rank: int = 0) -> str:
        """Locally administered, as QEMU's are; the third and the last byte keep the NICs of a machine
        apart.
        """
        high, low = divmod(self._draw("mac", 1 << 16), 256)
        return f"52:54:{rank:02x}:{high:02x}:{low:02x}:{index + 2:02x}"

    def port(self, base: int) -> int:
        """Below the ports that the kernel gives out itself."""
        return base + self._draw("port", 20_000)

    def offset_s(self, trial: int) -> float:
        """1 to 21 ms: beyond some periods of the kernel's tick of 4 ms."""
        return 1e-3 + self._draw(f"offset/{trial}", 20_000_000) * 1e-9

    def instant(self, trial: int) -> float:
        """From 0 to 1."""
        return self._draw(f"instant/{trial}", 1 << 32) / (1 << 32)

    def _draw(self, of: str, below: int) -> int:
        return random.Random(f"{self.seed}/{of}").randrange(below)


@dataclass(frozen=True)
class Capacity:
    """What a workload carries at most, in b/s, on a bench of these levels."""

    workload: str
    levels: Cell
    bps: float


@dataclass(frozen=True)
class Likeness:
    """This host's name, and the limits of its processes; nothing where guests keep their own."""

    host_name: str | None = None
    limits: tuple[plan.ResourceLimit, ...] = ()


@dataclass(frozen=True)
class MachineResources:
    """What the machine gives: chosen once, the same for the whole run.

    `cpus`: those that the run may use. `datapath_cpu` is that of what moves guests' packets, where that
    has one for itself, and none of `cpus`. `images` by the names of their kernel and profile. `chance` is
    drawn from where a machine's boots do not differ by themselves.
    `capacities` are what workloads carry at most, where the run has measured it. Commands start in a
    copy of `workdir`, or where there is none in `directory`, which is the machine's own. `programs` is
    what those of its image take of the memory of the system under test, in bytes. `daemon` is what
    routers learn networks by, where one does. `image` is what the user's engine makes containers of.
    `has_vhost` says that this run can use vhost-net of this host. `likeness` is what guests of this host
    have as it has it. `emulator` is what virtual time is made
    with; where there is none, the distribution's QEMU. `processors` are those whose page walks take
    time, as JSON, by what the study calls them. `elsewhere` is the host that benches stand on where it is
    not this one. `peers_of_given` is by the address of each machine that was given that of whom it speaks
    with, `processes_of_given` by its `outside` the process of this host that it is in. `further` are
    the resources of the other hosts that a run has.
    """

    cpus: tuple[int, ...]
    accelerator: plan.Accelerator
    images: Mapping[tuple[str, str], Bootable]
    environment: dict[str, str]
    workdir: Path | None = None
    directory: Path | None = None
    programs: int = 0
    chance: Chance = Chance(0)
    capacities: tuple[Capacity, ...] = ()
    daemon: Startable | None = None
    image: ContainerImage | None = None
    emulator: Emulating | None = None
    has_vhost: bool = False
    likeness: Likeness = Likeness()
    datapath_cpu: int | None = None
    elsewhere: Elsewhere | None = None
    peers_of_given: Mapping[str, str] = field(default_factory=dict)
    processes_of_given: Mapping[str, int] = field(default_factory=dict)
    processors: Mapping[str, str] = field(default_factory=dict)
    further: tuple[MachineResources, ...] = ()

    @property
    def hosts(self) -> tuple[MachineResources, ...]:
        """Of each host of the run: all know the capacities that were measured on the first."""
        known = (replace(one, capacities=self.capacities) for one in self.further)
        return (self, *known)


def sut_cpus(count: int, resources: MachineResources) -> tuple[int, ...]:
    """The CPUs of the system under test: the last ones, so that the peer can have the first.

    Raises:
        InputError: there are not so many.
    """
    available = resources.cpus
    if count > len(available):
        raise InputError(
            f"{count} CPUs were asked for, but this machine lets the run use {len(available)}.",
            f"Ask for at most {len(available)}.",
        )
    return available[-count:]


def files_memory(memory: int) -> int:
    """Of the memory of the system under test, what files may take.

    In a guest a quarter more may be taken by what it keeps of the file share, and the last quarter is
    for the work itself; its agent gives less where its kernel leaves less.
    """
    return memory // 2


def peer_cpus(count: int, resources: MachineResources) -> tuple[int, ...]:
    """The CPUs that the system under test leaves to its peer; all of them when it leaves none."""
    return resources.cpus[:-count] or resources.cpus
