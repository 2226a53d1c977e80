"""KVM or emulation: decided by booting a guest, since /dev/kvm can be there and not work."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from hypertare.base.arch import ARCH
from hypertare.base.errors import MachineError
from hypertare.base.host_files import Host
from hypertare.base.paths import agent_binary
from hypertare.protocol.constants import AGENT_PREFIX
from hypertare.protocol.plan import Accelerator

if TYPE_CHECKING:
    from hypertare.machines.image.build import Image

_BOOT_LIMIT_S = 8
_FILE = "accelerator.json"


@dataclass(frozen=True)
class Choice:
    """An accelerator, why, and what would make it a faster one."""

    accelerator: Accelerator
    reason: str
    do: str | None = None


def require_qemu() -> None:
    """Checks that QEMU is installed.

    Raises:
        MachineError: it is not.
    """
    if shutil.which(ARCH.qemu) is None:
        raise MachineError(
            "QEMU is not installed; the platform 'guest' and the machine 'emulated' need it.",
            f"Install it (Debian: apt-get install {ARCH.qemu_package}), or leave the guest out: "
            '--on native,container (weigh) or --set \'sut.platforms=["native","container"]\'.',
        )


def best_accelerator(image: Image, agent: Path | None = None, host: Host | None = None) -> Choice:
    """KVM if a guest boots with it in time, else emulation.

    The answer holds for one boot of this machine with this QEMU and this kernel, and is kept in the
    cache for that long.

    Raises:
        MachineError: there is no agent to boot it.
    """
    machine = host or Host()
    if choice := without_boot(machine):
        return choice
    key = _key(machine, image)
    choice = _remembered(machine, key)
    if choice is None:
        choice = _boot(machine, image, agent or agent_binary())
        _remember(machine, key, choice)
    return choice


def without_boot(host: Host) -> Choice | None:
    """The answer where it needs no boot: KVM is not there, or not for this user."""
    device = host.at("/dev/kvm")
    if device.exists():
        if os.access(device, os.R_OK | os.W_OK):
            return None
        return Choice(
            "tcg",
            "/dev/kvm may not be opened by this user",
            "as root: adduser USER kvm, then log in again",
        )
    flags = cpu_flags(host)
    module = "kvm_amd" if "svm" in flags else "kvm_intel" if "vmx" in flags else None
    if module is not None:
        return Choice(
            "tcg",
            f"there is no /dev/kvm: the processor can virtualise, but {module} is not loaded",
            f"as root: modprobe {module}; in a container: docker run --device /dev/kvm",
        )
    if "hypervisor" in flags:
        do = "a virtual machine needs nested virtualisation for it, see `nested`"
    else:
        do = (
            "switch virtualisation on in the firmware (Intel VT-x, AMD SVM), then as root: "
            "modprobe kvm_intel (or kvm_amd)"
        )
    return Choice("tcg", "there is no /dev/kvm: the processor shows no virtualisation", do)


def cpu_flags(host: Host) -> frozenset[str]:
    """What /proc/cpuinfo says that the processor can do."""
    flags = re.search(r"^flags\s*:(.*)$", host.read("/proc/cpuinfo") or "", re.MULTILINE)
    return frozenset(flags[1].split() if flags else ())


def _boot(host: Host, image: Image, agent: Path) -> Choice:
    limit = ("--accelerator", "kvm", "--limit", str(_BOOT_LIMIT_S))
    files = ("--kernel", str(image.kernel), "--initramfs", str(image.initramfs))
    # Whatever ends this process ends the guest.
    life = ("--parent", str(os.getpid()))
    ran = host.run((str(agent), "guest", *files, *limit, *life), _BOOT_LIMIT_S + 5.0)
    if ran.ok:
        return Choice("kvm", "a guest booted with KVM")
    why = ran.err.strip().partition("\n")[0].removeprefix(AGENT_PREFIX) or "no message"
    return Choice(
        "tcg",
        f"/dev/kvm is there, but a guest does not boot with it: {why}",
        "in a virtual machine: see `nested`; on bare metal: dmesg | grep -i kvm",
    )


def _key(host: Host, image: Image) -> str:
    version = host.run((ARCH.qemu, "--version"), 10.0).out.partition("\n")[0]
    boot = host.read("/proc/sys/kernel/random/boot_id") or ""
    parts = (boot, host.read("/proc/sys/kernel/osrelease") or "", image.kernel_release, version)
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def _remembered(host: Host, key: str) -> Choice | None:
    try:
        kept = json.loads((host.cache / _FILE).read_bytes())
        if kept["key"] == key and kept["accelerator"] in ("kvm", "tcg"):
            return Choice(kept["accelerator"], str(kept["reason"]), kept["do"])
    except (OSError, ValueError, KeyError, TypeError):
        pass
    return None


def _remember(host: Host, key: str, choice: Choice) -> None:
    """A cache that cannot be written costs another boot next time, no more."""
    kept = {"key": key, **choice.__dict__}
    with suppress(OSError):
        host.cache.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=host.cache, delete=False) as written:
            json.dump(kept, written)
        Path(written.name).replace(host.cache / _FILE)
