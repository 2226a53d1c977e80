"""The machine of a run and the versions of its programs, which are stored beside its figures."""

from __future__ import annotations

import platform
import re
from pathlib import Path
from typing import TYPE_CHECKING

from hypertare import __version__
from hypertare.base.errors import MachineError
from hypertare.base.host_files import Host
from hypertare.machines.asked import Asked, first_number
from hypertare.machines.host import xen
from hypertare.runs.machine_state import MachineState

if TYPE_CHECKING:
    from hypertare.design.planner.machine_resources import Bootable, Emulating


OF_THE_HOST = ("qemu", "xen")
"""Programs whose versions are those of the host on which benches stand."""


def machine_state(host: Host | None = None) -> MachineState:
    """This machine, as every summary names it."""
    local = host or Host()
    cpuinfo = local.read("/proc/cpuinfo") or ""
    model = re.search(r"^model name\s*:\s*(.*)$", cpuinfo, re.MULTILINE)
    release = local.read("/etc/os-release") or local.read("/usr/lib/os-release") or ""
    name = re.search(r'^PRETTY_NAME="?([^"\n]*)', release, re.MULTILINE)
    return MachineState(
        kind="local",
        hostname=local.read("/proc/sys/kernel/hostname") or "unknown",
        cpu=model[1].strip() if model else "unknown",
        cpus=len(re.findall(r"^processor\s*:", cpuinfo, re.MULTILINE)),
        memory=local.memory.get("MemTotal", 0),
        kernel=local.read("/proc/sys/kernel/osrelease") or "unknown",
        architecture=platform.machine(),
        distribution=name[1] if name else "unknown",
    )


def versions(
    agent: Path,
    image: Bootable | None = None,
    asked: Asked | None = None,
    emulator: Emulating | None = None,
) -> dict[str, str]:
    """Returns the versions of all programs that may influence the figures, without those that do not exist.

    Args:
        agent: the agent's path; it answers at once and is asked here.
        image: the image that guests boot.
        asked: answers of the other programs, if they were asked before.
        emulator: the emulator of virtual time.
    """
    asked = asked or Asked()
    found = {
        "hypertare": __version__,
        "commit": asked.commit.result(),
        "python": platform.python_version(),
        "agent": first_number(asked.host, (str(agent), "--version")),
        "qemu": asked.qemu.result(),
        "emulator": emulator.content if emulator else None,
        "xen": _xen(asked.host),
        "guest kernel": image.kernel_name if image else None,
        "image": image.digest if image else None,
        "programs": image.programs if image else None,
    }
    return {name: version for name, version in found.items() if version}


def _xen(host: Host) -> str | None:
    """Returns Xen's version if this host is its driver domain, else None."""
    try:
        return xen.find(host).described if xen.is_driver_domain(host) else None
    except MachineError:
        return None
