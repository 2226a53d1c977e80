"""Whether guests can be had, under KVM or Xen, and how fast they are."""

from __future__ import annotations

import re

from hypertare.base.arch import ARCH
from hypertare.base.errors import HypertareError
from hypertare.base.host_files import Host
from hypertare.base.units import human_size
from hypertare.doctor.finding import Said
from hypertare.machines.host import xen as below
from hypertare.machines.host.kvm import cpu_flags
from hypertare.machines.host.settings import VHOST, can_use_vhost

_OLDEST = (7, 0)


def qemu(host: Host) -> Said:
    """QEMU runs the guests."""
    ran = host.run((ARCH.qemu, "--version"), 10.0)
    found = re.search(r"version (\d+)\.(\d+)\S*", ran.out)
    if not ran.ok or not found:
        do = f"as root: apt-get install {ARCH.qemu_package}"
        return Said("bad", f"no QEMU: {ran.said}", do)
    listed = host.run((ARCH.qemu, "-accel", "help"), 10.0).out.split()
    accelerators = ", ".join(name for name in ("kvm", "tcg") if name in listed) or "none"
    what = f"QEMU {found[0].removeprefix('version ')}, accelerators: {accelerators}"
    if (int(found[1]), int(found[2])) < _OLDEST:
        do = f"as root: apt-get install -t bookworm-backports {ARCH.qemu_package}, or a newer release"
        return Said("warn", f"{what}; older than 7.0 is not tested", do)
    return Said("ok", what)


def compiler(host: Host) -> Said:
    """What builds the kernel module that sets NAPI weights."""
    gcc = host.run(("gcc", "-dumpversion"), 10.0)
    make = host.run(("make", "--version"), 10.0)
    if gcc.ok and make.ok:
        what = f"gcc {gcc.out.strip()} and make: guests can have any NIC's NAPI weight set"
        return Said("ok", what)
    missing = " and ".join(name for name, ran in (("gcc", gcc), ("make", make)) if not ran.ok)
    return Said(
        "info",
        f"no {missing}: in guests only virtio-net's NAPI weight can be had, fixed at their boot",
        "as root: apt-get install gcc make; then: hypertare image build --refresh",
    )


def nested(host: Host) -> Said:
    """Whether guests here are guests in a guest."""
    words = cpu_flags(host)
    if "hypervisor" not in words:
        return Said("ok", "this machine is not a virtual machine itself")
    if "vmx" in words or "svm" in words:
        return Said(
            "warn",
            "this machine is a virtual machine itself: guests under KVM are nested and slower",
            "use a bare-metal machine where the cost of plain KVM is the question",
        )
    return Said(
        "info",
        "this machine is a virtual machine without nested virtualisation",
        "on its hypervisor: cat /sys/module/kvm_*/parameters/nested must say Y or 1, "
        "and the machine needs the CPU model host",
    )


def vhost_net(host: Host) -> Said:
    """The kernel's own back end for virtio-net."""
    if can_use_vhost(host):
        what = f"{VHOST} can be used: the kernel moves the packets of guests under KVM"
        return Said("ok", what)
    through_qemu = "guests' packets go through QEMU's process, which costs more"
    if host.at(VHOST).exists():
        what = f"{VHOST} may not be opened by this user: {through_qemu}"
        return Said("info", what, "as root: adduser USER kvm, then log in again")
    do = f"as root: modprobe vhost_net; in a container: docker run --device {VHOST}"
    return Said("info", f"no {VHOST}: {through_qemu}", do)


TESTED = "4.17"


def xen(host: Host) -> Said:
    """This host as the driver domain of Xen."""
    if not below.is_below(host):
        what = "this host does not run under Xen: guests of Xen are for the emulated machine"
        return Said("info", what)
    try:
        below.check_driver_domain(host)
        found = below.find(host)
    except HypertareError as error:
        return Said("info", error.what, error.do)
    what = (
        f"driver domain of Xen {found.described}, {human_size(found.free_memory)} free for guests"
    )
    if not found.free_memory:
        do = "boot Xen with dom0_mem=..., so that the driver domain does not have all memory"
        return Said("warn", what, do)
    if not found.version.startswith(f"{TESTED}."):
        do = f"Xen {TESTED} (Debian 12), or see whether a small study runs: docs/xen.md"
        return Said("warn", f"{what}; only Xen {TESTED} is tested", do)
    return Said("ok", what)
