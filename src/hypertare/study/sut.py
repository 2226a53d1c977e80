"""`[sut]`: the system under test."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, field_validator

from hypertare.base.quantities import Limit, Memory
from hypertare.base.settings import Settings
from hypertare.base.words import did_you_mean
from hypertare.machine_kinds.registry import KINDS as MACHINES
from hypertare.machine_kinds.registry import USUAL
from hypertare.platforms.registry import BASELINE, PlatformName
from hypertare.protocol.plan import NicModel, Pages, Paging, Scheduler
from hypertare.study.programs import SETS as PROGRAM_SETS
from hypertare.study.programs import is_own

MOST_GUESTS = 64
OF_GUESTS = frozenset({"sut.paging", "sut.pages"})
"""What a guest's host is booted with, and the baseline's machine knows nothing of."""


class Sut(Settings):
    """The system under test, on every platform."""

    platforms: tuple[PlatformName, ...] = MACHINES[USUAL].usual_platforms
    cpus: Annotated[int, Field(ge=1)] = 1
    memory: Memory = 512 << 20
    nic: NicModel = "virtio-net"
    kernel: str = "debian"
    accelerator: Literal["auto", "kvm", "tcg"] = "auto"
    cpu_model: str | None = None
    kernel_args: tuple[str, ...] = ()
    paging: Paging | None = None
    pages: Pages | None = None
    boot_limit: Limit = 60.0
    workdir: Path | None = None
    guests: Annotated[int, Field(ge=1, le=MOST_GUESTS)] = 1
    scheduler: Scheduler = "credit"
    driver_memory: Memory = 448 << 20
    programs: tuple[str, ...] = ()
    devices: tuple[Path, ...] = ()
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

    @field_validator("platforms")
    @classmethod
    def _baseline_first(cls, platforms: tuple[PlatformName, ...]) -> tuple[PlatformName, ...]:
        if len(set(platforms)) != len(platforms):
            raise ValueError("a platform stands twice in the list")
        if BASELINE not in platforms:
            raise ValueError(f"'{BASELINE}' must be among the platforms: it is the baseline")
        return platforms
