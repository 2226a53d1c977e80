"""`[sut]`: the system under test."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, field_validator

from hypertare.base.quantities import Limit, Memory
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
    f"sut.{key}" for key in (*OF_HYPERVISOR, "guest_cpus", "driver_cpus", "pinning", "tsc")
)
"""What a guest's host is booted with, or gives it, and the baseline's machine knows nothing of."""


class Sut(GuestSettings):
    """The system under test, on every platform."""

    platforms: tuple[PlatformName, ...] = MACHINES[USUAL].usual_platforms
    cpus: Annotated[int, Field(ge=1)] = 1
    memory: Memory = 512 << 20
    nic: NicModel = "virtio-net"
    kernel: str = "debian"
    accelerator: Literal["auto", "kvm", "tcg"] = "auto"
    boot_limit: Limit = 60.0
    workdir: Path | None = None
    given: str | None = None
    guests: Annotated[int, Field(ge=1, le=MOST_GUESTS)] = 1
    scheduler: Scheduler = "credit"
    driver_memory: Memory = 448 << 20
    driver_cpus: Annotated[int, Field(ge=1)] | None = None
    guest_cpus: Annotated[int, Field(ge=1)] | None = None
    pinning: Literal["none", "apart"] = "none"
    tsc: TscMode = "native"
    programs: tuple[str, ...] = ()
    devices: tuple[Path, ...] = ()
    disk_directory: Path | None = None
    network: Network = "none"
    image: str | None = None
    engine: Literal["auto", "podman", "docker"] = "auto"

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
