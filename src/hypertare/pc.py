"""The PC that an emulated machine is. Pure.

Platforms that need another hypervisor, image or CPU need a PC of another **class**, and a boot of
their own; those of one class share a boot.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from hypertare.study import Study

_XEN_MEMORY = 96 << 20
"""Of Xen itself, with the tables that it has of 2 GiB; measured by what it leaves free."""
_DOMAIN_OVERHEAD = 4 << 20
"""Of Xen's, a guest, beside its memory: page tables, grant tables, its console."""


@dataclass(frozen=True)
class PcClass:
    """What a PC must be for a platform.

    `profile` is its image's. A boot takes about `boot_s` seconds of this host, and `guest_boot_s` more a
    guest. Under a `hypervisor` the node `host` is the driver domain and no
    baseline.
    """

    name: str
    profile: str
    boot_s: float
    guest_boot_s: float = 0.0
    hypervisor: bool = False


PC = PcClass("pc", "emulated", boot_s=4.5)
XEN = PcClass("xen", "xen", boot_s=9.0, guest_boot_s=8.0, hypervisor=True)


def class_of(platform: str) -> PcClass:
    """The class of PC that a platform needs."""
    return XEN if platform == "xen" else PC


def classes(study: Study) -> list[PcClass]:
    """Those that a study's platforms need."""
    return list(dict.fromkeys(class_of(platform) for platform in study.sut.platforms))


@dataclass(frozen=True)
class Pc:
    """The hardware of an emulated machine, and how its clock runs.

    `kernel` and `profile` name its image.
    """

    clock: str
    shift: int
    seed: int
    memory: int
    cpus: int
    kernel: str
    limit_s: int
    host_limit_s: float
    nics: tuple[tuple[str, str], ...] = ()
    cpu_model: str | None = None
    kernel_args: tuple[str, ...] = ()
    profile: str = PC.profile
    driver_memory: int | None = None
    scheduler: str | None = None

    @property
    def image(self) -> tuple[str, str]:
        return self.kernel, self.profile

    @property
    def options(self) -> list[str]:
        """For `hypertare-agent emulate`, which makes QEMU's command line of them."""
        options = [
            f"--clock={self.clock}",
            f"--shift={self.shift}",
            f"--seed={self.seed}",
            f"--memory={self.memory}",
            f"--cpus={self.cpus}",
            f"--limit={self.limit_s}",
        ]
        options += [f"--nic={model}={mac}" for model, mac in self.nics]
        options += [f"--cpu-model={self.cpu_model}"] if self.cpu_model else []
        options += [f"--driver-memory={self.driver_memory}"] if self.driver_memory else []
        options += [f"--scheduler={self.scheduler}"] if self.scheduler else []
        return options + [f"--kernel-arg={argument}" for argument in self.kernel_args]


def make(kind: PcClass, study: Study, seed: int, nics: tuple[tuple[str, str], ...]) -> Pc:
    """The PC of this class for a study's settings."""
    return Pc(
        clock=study.clock,
        shift=study.emulated.shift,
        seed=seed,
        memory=memory(study),
        cpus=study.sut.cpus,
        kernel=study.sut.kernel,
        limit_s=math.ceil(study.emulated.limit),
        host_limit_s=study.emulated.host_limit,
        nics=nics,
        cpu_model=study.sut.cpu_model,
        kernel_args=study.sut.kernel_args,
        profile=kind.profile,
        driver_memory=study.sut.driver_memory if kind.hypervisor else None,
        scheduler=study.sut.scheduler if kind.hypervisor else None,
    )


def memory(study: Study) -> int:
    """Bytes that the PC of a study has, whatever its class: the baseline's is the same machine."""
    if "xen" not in study.sut.platforms:
        return study.sut.memory
    return _XEN_MEMORY + study.sut.driver_memory + guests_memory(study, study.bench_guests)


def guests_memory(study: Study, count: int) -> int:
    """Bytes of so many guests, with their peers where those are guests too."""
    if "xen" not in study.sut.platforms:
        return count * study.sut.memory
    each = 2 if study.bench.peers == "guest" else 1
    return count * each * (study.sut.memory + _DOMAIN_OVERHEAD)
