"""The PC that an emulated machine is. Pure.

Platforms of one **class** share a boot (`hypertare.platforms.platform`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from hypertare.knobs.registry import KINDS
from hypertare.platforms.platform import PC, PcClass, Platform
from hypertare.stats.line_rate import on_wire
from hypertare.study import Study

_OF_A_SWITCH = ("bridge", "veth")
"""Kernel modules of the bridge behind which the peers at the far end of a line stand."""


def classes(study: Study) -> list[PcClass]:
    """Returns the classes of PC that a study's platforms need, each once."""
    return list(dict.fromkeys(platform.pc for platform in study.platforms))


@dataclass(frozen=True)
class Nic:
    """A NIC of the machine; those on the hub of the same number hear each other."""

    model: str
    mac: str
    hub: int = 0


@dataclass(frozen=True)
class LinePace:
    """How NICs at the ends of a line of a limited rate send: so many frames every so many ns."""

    frames: int
    every_ns: int


@dataclass(frozen=True)
class Pc:
    """The hardware of an emulated machine, and how its clock runs.

    `kernel` and `profile` name its image. `walks` is the processor whose page walks take time, as JSON.
    """

    clock: str
    shift: int
    seed: int
    memory: int
    cpus: int
    kernel: str
    limit_s: int
    host_limit_s: float
    nics: tuple[Nic, ...] = ()
    cpu_model: str | None = None
    kernel_args: tuple[str, ...] = ()
    profile: str = PC.profile
    modules: tuple[str, ...] = ()
    driver_memory: int | None = None
    driver_cpus: int | None = None
    driver_bound: bool = False
    scheduler: str | None = None
    line: LinePace | None = None
    quantum_ns: int = 2000
    walks: str | None = None
    cache_share: float = 0.25
    walk_cost: float = 1.0

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
            f"--quantum={self.quantum_ns}",
            f"--limit={self.limit_s}",
        ]
        options += [f"--nic={nic.model}={nic.mac}@{nic.hub}" for nic in self.nics]
        options += [f"--line={self.line.frames}/{self.line.every_ns}"] if self.line else []
        options += [f"--module={module}" for module in self.modules]
        options += [f"--cpu-model={self.cpu_model}"] if self.cpu_model else []
        options += [f"--driver-memory={self.driver_memory}"] if self.driver_memory else []
        options += [f"--driver-cpus={self.driver_cpus}"] if self.driver_cpus else []
        options += walk_options(self.walks, self.cache_share, self.walk_cost) if self.walks else []
        options += ["--driver-bound"] if self.driver_bound else []
        options += [f"--scheduler={self.scheduler}"] if self.scheduler else []
        return options + [f"--kernel-arg={argument}" for argument in self.kernel_args]


def walk_options(processor: str, cache_share: float, walk_cost: float) -> list[str]:
    """Returns the emulator's options that give page walks the time of a processor, given as JSON."""
    return [f"--walks={processor}", f"--cache-share={cache_share}", f"--walk-cost={walk_cost}"]


def make(
    kind: PcClass,
    study: Study,
    seed: int,
    nics: tuple[Nic, ...],
    programs: int = 0,
    walks: str | None = None,
) -> Pc:
    """The PC of this class for a study's settings; `programs` as `memory`, `walks` as of `Pc`."""
    varied = {path.split(".")[1] for path in study.all_factors if path.startswith("knobs.")}
    knobs = [one for one in KINDS if study.knobs.level(one) is not None or one.name in varied]
    return Pc(
        clock=study.clock,
        shift=study.emulated.shift,
        seed=seed,
        memory=memory(study, programs),
        cpus=study.sut.cpus,
        kernel=study.sut.kernel,
        limit_s=math.ceil(study.emulated.limit),
        host_limit_s=study.emulated.host_limit,
        nics=nics,
        cpu_model=study.sut.cpu_model,
        kernel_args=study.sut.kernel_args if kind.kernel_args is None else kind.kernel_args,
        profile=kind.profile,
        modules=(
            *kind.modules,
            *(() if study.bench.line_rate is None else _OF_A_SWITCH),
            # Of the knobs that any cell sets in the driver domain.
            *(module for one in knobs if kind.has_driver_domain for module in one.modules),
        ),
        # Media of disks are in its memory.
        driver_memory=study.sut.driver_memory + _media(study) if kind.has_driver_domain else None,
        driver_cpus=study.sut.virtual_cpus_of_driver if kind.has_driver_domain else None,
        driver_bound=kind.has_driver_domain and study.sut.pinning == "apart",
        scheduler=study.sut.scheduler if kind.has_driver_domain else None,
        line=_line(study),
        quantum_ns=round(study.emulated.quantum * 1e9),
        walks=walks,
        cache_share=study.emulated.cache_share,
        walk_cost=study.emulated.walk_cost,
    )


BURST_S = 2e-3
MOST_FRAMES = 8
"""Most frames of a burst: as many as a NIC that moderates its interrupts reports at once."""


def _line(study: Study) -> LinePace | None:
    """Returns the pace of the line's NICs, at which every frame takes the time of a full one; None without
    a line.
    """
    rate = study.bench.line_rate
    if rate is None:
        return None
    frame_s = 8 * on_wire(study.bench.mtu) / rate
    frames = min(max(round(BURST_S / frame_s), 1), MOST_FRAMES)
    # Rounded up: never more than the line carries.
    return LinePace(frames, math.ceil(frames * frame_s * 1e9))


UNPACKING = 3
"""While a machine boots, the archive of its programs and the programs themselves are in memory both,
and the latter may take half of what the archive leaves. Where that is too little the kernel unpacks a
part and goes on without a word.
"""


def memory(study: Study, programs: int = 0) -> int:
    """Bytes that the PC of a study has, whatever its class: the baseline's is the same machine.

    `programs` is what those in its image take, in bytes: a host of guests has the archive of them.
    """
    needs = [_needed(platform, study, programs) for platform in study.platforms]
    return max(study.sut.memory, *needs) + _media(study)


def _media(study: Study) -> int:
    """Bytes that the disks' media take of the machine's memory."""
    return study.bench_guests * study.disk_bytes


def _needed(platform: Platform, study: Study, programs: int) -> int:
    """Bytes of a platform's PC with all its guests, beside what the work itself takes."""
    kind = platform.pc
    needed = kind.own_memory
    if kind.has_driver_domain:
        needed += study.sut.driver_memory
    if kind.unpacks_programs:
        needed += UNPACKING * programs
    if kind.has_guests:
        needed += study.bench_guests * _guest_memory(platform, study)
    return needed


def _guest_memory(platform: Platform, study: Study) -> int:
    """Bytes of a guest, of its peers if they are guests too, and of the nodes that a workload makes like
    it.

    The overhead of each is included. An emulated machine is made large enough for all of them.
    """
    peers = 0
    if platform.has_guests_as_peers and study.bench.peers_are_guests:
        peers = 2 if study.routed else 1
    return (1 + peers + study.most_beside) * (study.sut.memory + platform.pc.guest_overhead)


def guests_memory(study: Study, count: int) -> int:
    """Bytes of memory that `count` guests, with the nodes beside them, take of their host."""
    for platform in study.platforms:
        if platform.under_hypervisor:
            return count * _guest_memory(platform, study)
    return count * (1 + study.nodes_beside) * study.sut.memory
