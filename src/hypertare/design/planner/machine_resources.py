"""Resources of the machine: CPUs, images, chance, and the capacities that the run has measured."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

from hypertare.base.errors import InputError
from hypertare.base.variables import Cell
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


@dataclass(frozen=True)
class Chance:
    """What chance moves between two boots of a real machine, here moved by a seed: addresses,
    ports, and where in the timer's period a trial starts.

    Layouts of address spaces and hash seeds follow from the machine's own random numbers, which
    have the same seed.
    """

    seed: int

    def mac(self, index: int, rank: int = 0) -> str:
        """Draws a locally administered MAC address, as QEMU's are.

        The third byte is `rank` and the last one `index` + 2, so that no two NICs of a machine have one
        address.
        """
        high, low = divmod(self._draw("mac", 1 << 16), 256)
        return f"52:54:{rank:02x}:{high:02x}:{low:02x}:{index + 2:02x}"

    def port(self, base: int) -> int:
        """Draws a port from `base` to `base` + 19,999, below the kernel's ephemeral ports (from 32,768)."""
        return base + self._draw("port", 20_000)

    def offset_s(self, trial: int) -> float:
        """Draws the delay of a trial's start in seconds, 1 to 21 ms: several periods of the kernel's 4 ms
        tick.
        """
        return 1e-3 + self._draw(f"offset/{trial}", 20_000_000) * 1e-9

    def instant(self, trial: int) -> float:
        """Draws a number from 0 to 1, by which a trial chooses the moment of an event."""
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
    """Resources of the machine, chosen once and the same for the whole run.

    - `cpus`: the CPUs that the run may use.
    - `datapath_cpu`: the CPU of the process that moves guests' packets, if that process has one for itself.
      It is not in `cpus`.
    - `images`: by the names of their kernel and profile.
    - `chance`: the source of chance on a machine whose boots do not differ by themselves.
    - `capacities`: the most that workloads carry, where the run has measured it.
    - `workdir`: the directory of which commands start in a copy; without it they start in `directory`, the
      machine's own.
    - `programs`: bytes that the programs of the image take of the memory of the system under test.
    - `daemon`: the routing daemon, if a router has one.
    - `image`: the image from which the user's engine makes containers.
    - `has_vhost`: this run can use vhost-net of this host.
    - `likeness`: the host name and the limits that guests of this host have in common with it.
    - `emulator`: the emulator of virtual time; None for the distribution's QEMU.
    - `processors`: descriptions, as JSON, of the processors whose page walks take time, by their names in
      the study.
    - `elsewhere`: the host on which benches stand, if it is not this one.
    - `peers_of_given`: the address of the peer of each given machine, by the machine's address.
    - `processes_of_given`: the process of this host in which a given machine runs, by the machine's
      `outside`.
    - `further`: the resources of the other hosts of the run.
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
    elsewhere: object | None = None
    peers_of_given: Mapping[str, str] = field(default_factory=dict)
    processes_of_given: Mapping[str, int] = field(default_factory=dict)
    processors: Mapping[str, str] = field(default_factory=dict)
    further: tuple[MachineResources, ...] = ()

    @property
    def hosts(self) -> tuple[MachineResources, ...]:
        """The resources of each host of the run, all with the capacities measured on the first."""
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
    """Returns the bytes of a system under test's memory that files may take: half of it.

    In a guest, cached files of the file share may take another quarter, and the last quarter is for the
    work itself. The guest's agent gives files less if the kernel leaves less.
    """
    return memory // 2


def peer_cpus(count: int, resources: MachineResources) -> tuple[int, ...]:
    """The CPUs that the system under test leaves to its peer; all of them when it leaves none."""
    return resources.cpus[:-count] or resources.cpus
