"""`[sut]`: the system under test."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, field_validator

from hypertare.base.quantities import Duration, Limit, Memory
from hypertare.base.words import did_you_mean
from hypertare.machine_kinds.registry import KINDS as MACHINES
from hypertare.machine_kinds.registry import USUAL
from hypertare.platforms.guest_settings import OF_HYPERVISOR, GuestSettings
from hypertare.platforms.registry import BASELINE, PlatformName
from hypertare.protocol.plan import NicModel, Scheduler, TscMode
from hypertare.study.programs import SETS as PROGRAM_SETS
from hypertare.study.programs import is_own

Network = Literal["none", "host"]
"""What commands see of a network: nothing, or this host's."""

MOST_GUESTS = 64
OF_GUESTS = frozenset(
    f"sut.{key}"
    for key in (*OF_HYPERVISOR, "guest_cpus", "driver_cpus", "pinning", "datapath_apart", "tsc")
)
"""What a guest's host is booted with, or gives it, and the baseline's machine knows nothing of."""


class Sut(GuestSettings):
    """The system under test, on every platform."""

    platforms: tuple[PlatformName, ...] = MACHINES[USUAL].usual_platforms
    """`native`, the baseline, and of `container`, `guest` (emulated [one of
    KVM](virtual-time.md#a-kvm-host-in-virtual-time)), `xen`, `driver` ([Xen's driver domain](xen.md)),
    `given` ([a machine that you have](given.md)). Default: the first three; emulated `native`.
    """
    cpus: Annotated[int, Field(ge=1)] = 1
    """CPUs of [every platform](weigh.md#the-same-on-every-platform)."""
    memory: Memory = 512 << 20
    """Memory of each guest, and the limit of the container."""
    nic: NicModel = "virtio-net"
    """The model of a guest's NIC, and of every NIC of an emulated machine; or `e1000`, `e1000e`,
    `vmxnet3`, `rtl8139`, `pcnet`.
    """
    kernel: str = "debian"
    """The kernel of a guest; or `debian:PACKAGE`, `host`, a path."""
    accelerator: Literal["auto", "kvm", "tcg"] = "auto"
    """`auto`: KVM where a guest boots with it, else TCG; or `kvm`, `tcg`."""
    boot_limit: Limit = 60.0
    """The longest time that a guest may take to boot; it is extended where several boot at once."""
    workdir: Path | None = None
    """The directory that is copied for every trial of a command, without runs that lie in it; relative to
    the study file. Default: its folder.
    """
    given: str | None = None
    """The machine in `[given]` that the platform `given` is; as a factor, several. Default: the only one.
    """
    guests: Annotated[int, Field(ge=1, le=MOST_GUESTS)] = 1
    """Guests that work at once, each with a peer; natively one node does all their work. As a factor:
    [some wait](xen.md#guests-that-wait).
    """
    scheduler: Scheduler = "credit"
    """Xen's scheduler; or `credit2`. A host of your own must run it."""
    driver_memory: Memory = 448 << 20
    """Memory of Xen's driver domain."""
    driver_cpus: Annotated[int, Field(ge=1)] | None = None
    """Virtual CPUs of the driver domain. Default: `cpus`; with `pinning = "apart"` 1."""
    guest_cpus: Annotated[int, Field(ge=1)] | None = None
    """Virtual CPUs of each emulated `guest` or `xen`. Default: `cpus`; with `pinning = "apart"` what the
    driver domain leaves.
    """
    pinning: Literal["none", "apart"] = "none"
    """How virtual CPUs of Xen's domains are bound to CPUs; or `apart` ([who has which
    CPU](xen.md#who-has-which-cpu)).
    """
    datapath_apart: bool = False
    """On an emulated machine, what moves a KVM guest's packets has [a CPU of its
    own](kvm-drivers.md#who-has-which-cpu), whatever moves them.
    """
    tsc: TscMode = "native"
    """How a guest of `xen` reads the time-stamp counter. `native`: the machine's; `emulate`: each reading
    traps; `default`: Xen chooses ([what it costs](xen.md#the-time-stamp-counter)).
    """
    programs: tuple[str, ...] = ()
    """What an emulated machine's image has: `build`, `compress`, programs and directories [by
    path](programs.md).
    """
    devices: tuple[Path, ...] = ()
    """Devices that commands see too: `["/dev/fuse"]`. What is done to them
    [stays](isolation.md#what-is-not).
    """
    disk_directory: Path | None = None
    """The directory in which [a workload's disk](disks.md) has its blocks, in a file without a name.
    Default: they are in memory.
    """
    disk_latency: Annotated[Duration, Field(ge=0, le=1)] = 0.0
    """How long [the medium](disks.md#a-medium-that-takes-time) of an emulated machine takes for an
    operation, beside what the processor does for it.
    """
    network: Network = "none"
    """The network that commands see; or `host`, [this host's own](weigh.md#what-did-it-do)."""
    image: str | None = None
    """An image of [your own engine](containers.md): `container` is a container of it, and native has its
    files.
    """
    engine: Literal["auto", "podman", "docker"] = "auto"
    """The engine that has that image; or `podman`, `docker`."""

    @field_validator("programs")
    @classmethod
    def _known_programs(cls, programs: tuple[str, ...]) -> tuple[str, ...]:
        for name in programs:
            if name not in PROGRAM_SETS and not is_own(name):
                hint = did_you_mean(name, PROGRAM_SETS)
                raise ValueError(
                    f"there is no set of programs '{name}'.{hint} "
                    f"There are: {', '.join(PROGRAM_SETS)}. A program of this host is named by its "
                    f"path, for example './{name}'"
                )
        return programs

    @field_validator("devices")
    @classmethod
    def _below_dev(cls, devices: tuple[Path, ...]) -> tuple[Path, ...]:
        for device in devices:
            if device.parts[:2] != ("/", "dev") or len(device.parts) < 3 or ".." in device.parts:
                raise ValueError(
                    f"'{device}' names no device: write /dev/NAME, for example /dev/fuse"
                )
        return devices

    @field_validator("disk_directory")
    @classmethod
    def _from_the_root(cls, directory: Path | None) -> Path | None:
        if directory is not None and not directory.is_absolute():
            raise ValueError(f"'{directory}' is no path from the root: write it with a / in front")
        return directory

    @field_validator("platforms")
    @classmethod
    def _baseline_first(cls, platforms: tuple[PlatformName, ...]) -> tuple[PlatformName, ...]:
        if len(set(platforms)) != len(platforms):
            raise ValueError("a platform stands twice in the list")
        if BASELINE not in platforms:
            raise ValueError(f"'{BASELINE}' must be among the platforms: it is the baseline")
        return platforms

    @property
    def virtual_cpus_of_driver(self) -> int:
        """Xen gives its driver domain one for each of the machine's CPUs."""
        if self.driver_cpus is not None:
            return self.driver_cpus
        return 1 if self.pinning == "apart" else self.cpus

    def virtual_cpus(self, *, has_driver: bool) -> int:
        """Of a guest: as many as the baseline has CPUs, or as the driver domain leaves it."""
        if self.guest_cpus is not None:
            return self.guest_cpus
        apart = has_driver and self.pinning == "apart"
        return len(self.cpus_beside_driver) if apart else self.cpus

    @property
    def cpus_beside_driver(self) -> tuple[int, ...]:
        """Where guests run of a driver domain that has the first CPUs for itself."""
        return tuple(range(self.virtual_cpus_of_driver, self.cpus))
