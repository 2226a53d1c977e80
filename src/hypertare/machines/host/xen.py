"""Xen below this host: what there is of it, and whether a study's guests can be had. Reads only."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass

from hypertare.base.errors import MachineError
from hypertare.base.host_files import Host
from hypertare.base.units import human_size
from hypertare.design import pc
from hypertare.study import Study

TYPE = "/sys/hypervisor/type"
_UNDER_XEN = "xen"
CAPABILITIES = "/proc/xen/capabilities"
_XL_LIMIT_S = 30.0
_EMULATED = 'or take machine = "emulated", which boots real Xen in QEMU.'
_INSTALL = "As root: apt-get install xen-system-amd64, then reboot and choose the entry with Xen"


@dataclass(frozen=True)
class Xen:
    """As its tools report it. `free_memory`, in bytes, is nobody's: not even the driver domain's."""

    version: str
    scheduler: str
    free_memory: int

    @property
    def described(self) -> str:
        return f"{self.version}, scheduler {self.scheduler}"


def is_below(host: Host) -> bool:
    """Whether this host runs under Xen, as driver domain or as a guest."""
    return host.read(TYPE) == _UNDER_XEN


def is_driver_domain(host: Host) -> bool:
    """Whether this is the domain that makes the others."""
    return "control_d" in (host.read(CAPABILITIES) or "")


def find(host: Host) -> Xen:
    """Xen as this driver domain's tools know it.

    Raises:
        MachineError: they are not there or do not work, with what `xl` says.
    """
    ran = host.run(("xl", "info"), _XL_LIMIT_S)
    report = dict(re.findall(r"^(\w+)\s*:\s*(.*?)\s*$", ran.out, re.MULTILINE))
    missing = [key for key in ("xen_version", "xen_scheduler", "free_memory") if key not in report]
    if not ran.ok or missing:
        said = ran.said if not ran.ok else f"it does not report {', '.join(missing)}"
        raise MachineError(
            f"Xen's tools do not work here: xl info: {said}.",
            "As root: apt-get install xen-utils-common xenstore-utils, "
            "and systemctl status xen (it starts xenstored and xenconsoled).",
        )
    megabytes = int(re.sub(r"\D.*", "", report["free_memory"]) or 0)
    return Xen(report["xen_version"], report["xen_scheduler"], megabytes << 20)


def check_driver_domain(host: Host) -> None:
    """Whether guests of Xen can be made from here.

    Raises:
        MachineError: they cannot, why, and what to do.
    """
    if not is_below(host):
        raise MachineError(
            "The platforms xen and driver need Xen below this host, which does not run under it.",
            f"{_INSTALL}; {_EMULATED}",
        )
    if not is_driver_domain(host):
        raise MachineError(
            f"This host runs under Xen, but not as its driver domain ({CAPABILITIES} has no "
            "control_d): guests are made in Domain-0.",
            f"Run it there; {_EMULATED}",
        )
    if os.geteuid() != 0:
        raise MachineError(
            "Guests of Xen are made by root only.", "Run it as root: sudo hypertare run ..."
        )


def check(host: Host, studies: Iterable[Study]) -> Xen:
    """Whether the guests of these studies, which are one with the levels of each bench in place, can
    be had; changes nothing.

    Raises:
        MachineError: they cannot, why, and what to do.
    """
    check_driver_domain(host)
    xen = find(host)
    for study in studies:
        _check_scheduler(xen, study)
        _check_memory(xen, study)
    return xen


def _check_scheduler(xen: Xen, study: Study) -> None:
    """One that nobody asked for is whatever there is."""
    asked = study.sut.scheduler
    if "scheduler" not in study.sut.model_fields_set or asked == xen.scheduler:
        return
    raise MachineError(
        f"sut.scheduler is {asked}, but this host's Xen runs with {xen.scheduler}, and cannot change "
        "it while it runs.",
        f"Boot Xen with sched={asked} (Debian: GRUB_CMDLINE_XEN in /etc/default/grub.d/xen.cfg, then "
        f"update-grub), or take --set 'sut.scheduler=\"{xen.scheduler}\"'.",
    )


def _check_memory(xen: Xen, study: Study) -> None:
    if not any(platform.image for platform in study.platforms):
        return
    memory, count = study.sut.memory, study.bench_guests
    from hypertare.machines.image.vmm import P2M_LIMIT

    if memory > P2M_LIMIT:
        raise MachineError(
            f"sut.memory is {human_size(memory)}, but the guests' kernel has room for "
            f"{human_size(P2M_LIMIT)} under Xen.",
            "Give each guest less with sut.memory.",
        )
    needed = pc.guests_memory(study, count)
    if needed <= xen.free_memory:
        return
    fits = xen.free_memory // pc.guests_memory(study, 1)
    raise MachineError(
        f"{count} guest{'s' * (count > 1)} of {human_size(memory)} need {human_size(needed)}, but Xen "
        f"has {human_size(xen.free_memory)} of free memory: {fits} fit. The driver domain's memory is "
        "left alone.",
        "Ask for fewer with sut.guests, or for less memory each with sut.memory; or boot Xen with "
        "dom0_mem=..., so that the driver domain does not have all of it.",
    )
