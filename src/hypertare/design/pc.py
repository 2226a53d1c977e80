"""The PC that an emulated machine is. Pure.

Platforms that need another hypervisor, image or CPU need a PC of another **class**, and a boot of
their own; those of one class share a boot.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from hypertare.stats.line_rate import on_wire
from hypertare.study import Study

_XEN_MEMORY = 96 << 20
"""An allowance for Xen itself and its tables; not measured. Up to 8 guests boot with it."""
_DOMAIN_OVERHEAD = 4 << 20
"""An allowance a guest, beside its memory: page tables, grant tables, its console; not measured."""
_KVM_HOST_MEMORY = 640 << 20
"""Of a host of KVM, without its guests: its image is there twice while it is unpacked."""
_VMM_OVERHEAD = 96 << 20
"""Of QEMU, a guest, beside its memory."""


@dataclass(frozen=True)
class PcClass:
    """What a PC must be for a platform.

    `profile` is its image's. A boot takes about `boot_s` seconds of this host, and `guest_boot_s` more a
    guest. Where it `has_guests`, the node `host` moves their packets (it is Xen's driver domain, or
    KVM's host) and is no baseline. `modules` are those that its kernel loads beside what its devices
    need.
    """

    name: str
    profile: str
    boot_s: float
    guest_boot_s: float = 0.0
    has_guests: bool = False
    modules: tuple[str, ...] = ()


PC = PcClass("pc", "emulated", boot_s=4.5)
XEN = PcClass("xen", "xen", boot_s=9.0, guest_boot_s=8.0, has_guests=True)
KVM = PcClass(
    "kvm", "kvm", boot_s=10.0, guest_boot_s=8.0, has_guests=True, modules=("bridge", "tun")
)

_OF_A_SWITCH = ("bridge", "veth")
"""What peers beyond a line stand behind."""

_CLASSES = {"xen": XEN, "guest": KVM}


def class_of(platform: str) -> PcClass:
    """The class of PC that a platform needs. The baseline's has no guest, not even an idle one."""
    return _CLASSES.get(platform, PC)


def classes(study: Study) -> list[PcClass]:
    """Those that a study's platforms need."""
    return list(dict.fromkeys(class_of(platform) for platform in study.sut.platforms))


@dataclass(frozen=True)
class Nic:
    """A NIC of the machine; those on the hub of the same number hear each other."""

    model: str
    mac: str
    hub: int = 0


@dataclass(frozen=True)
class Line:
    """How NICs at the ends of a line of a limited rate send: so many frames every so many ns."""

    frames: int
    every_ns: int


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
    nics: tuple[Nic, ...] = ()
    cpu_model: str | None = None
    kernel_args: tuple[str, ...] = ()
    profile: str = PC.profile
    modules: tuple[str, ...] = ()
    driver_memory: int | None = None
    scheduler: str | None = None
    line: Line | None = None

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
        options += [f"--nic={nic.model}={nic.mac}@{nic.hub}" for nic in self.nics]
        options += [f"--line={self.line.frames}/{self.line.every_ns}"] if self.line else []
        options += [f"--module={module}" for module in self.modules]
        options += [f"--cpu-model={self.cpu_model}"] if self.cpu_model else []
        options += [f"--driver-memory={self.driver_memory}"] if self.driver_memory else []
        options += [f"--scheduler={self.scheduler}"] if self.scheduler else []
        return options + [f"--kernel-arg={argument}" for argument in self.kernel_args]


def make(kind: PcClass, study: Study, seed: int, nics: tuple[Nic, ...], programs: int = 0) -> Pc:
    """The PC of this class for a study's settings; `programs` as `memory`."""
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
        # A host's own kernel is not under test: its guests' has them.
        kernel_args=() if kind is KVM else study.sut.kernel_args,
        profile=kind.profile,
        modules=kind.modules + (() if study.bench.line_rate is None else _OF_A_SWITCH),
        driver_memory=study.sut.driver_memory if kind is XEN else None,
        scheduler=study.sut.scheduler if kind is XEN else None,
        line=_line(study),
    )


BURST_S = 2e-3
MOST_FRAMES = 8
"""Of a burst: what a NIC that moderates its interrupts would tell its machine of at once."""


def _line(study: Study) -> Line | None:
    """Every frame takes the time of a full one."""
    rate = study.bench.line_rate
    if rate is None:
        return None
    frame_s = 8 * on_wire(study.bench.mtu) / rate
    frames = min(max(round(BURST_S / frame_s), 1), MOST_FRAMES)
    # Rounded up: never more than the line carries.
    return Line(frames, math.ceil(frames * frame_s * 1e9))


UNPACKING = 3
"""While a machine boots, the archive of its programs and the programs themselves are in memory both,
and the latter may take half of what the archive leaves. Where that is too little the kernel unpacks a
part and goes on without a word.
"""


def memory(study: Study, programs: int = 0) -> int:
    """Bytes that the PC of a study has, whatever its class: the baseline's is the same machine.

    `programs` is what those in its image take, in bytes: a host of guests has the archive of them.
    """
    platforms, one = study.sut.platforms, study.sut.memory
    needs = [one]
    if "xen" in platforms:
        guests = guests_memory(study, study.bench_guests)
        needs.append(_XEN_MEMORY + study.sut.driver_memory + guests)
    if "guest" in platforms:
        host = _KVM_HOST_MEMORY + UNPACKING * programs
        needs.append(host + study.bench_guests * (one + _VMM_OVERHEAD))
    return max(needs)


def guests_memory(study: Study, count: int) -> int:
    """Bytes of so many guests, with their peers where those are guests too."""
    if "xen" not in study.sut.platforms:
        return count * study.sut.memory
    ends = 2 if study.routed else 1
    each = 1 + ends if study.bench.peers == "guest" else 1
    return count * each * (study.sut.memory + _DOMAIN_OVERHEAD)
