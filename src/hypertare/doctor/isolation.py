"""What a bench is made of (namespaces, TAPs, overlays, cgroups), and what can be measured. Tried out."""

from __future__ import annotations

import os
from pathlib import Path

from hypertare.base.host_files import Host
from hypertare.doctor.finding import Said

_CGROUP = "/sys/fs/cgroup"
_HAND_DOWN = f'echo "+memory +cpu +cpuset" > {_CGROUP}/cgroup.subtree_control'
_UNIFY = "boot with systemd.unified_cgroup_hierarchy=1 on the kernel's command line"


def user_namespaces(host: Host) -> Said:
    """The bench lives in namespaces of its own."""
    tried = host.attempt("nothing", inside=True)
    if tried.ok:
        return Said("ok", "a bench can have namespaces of its own")
    return Said("bad", f"no namespaces: {tried.said}", _allow(host))


def tap(host: Host) -> Said:
    """A guest's NIC ends in a TAP device."""
    tried = host.attempt("tap", inside=True)
    if tried.ok:
        return Said("ok", "a TAP device can be made inside a bench")
    if not host.at("/dev/net/tun").exists():
        do = "as root: modprobe tun; in a container: run it with --device /dev/net/tun"
    else:
        do = "as root: chmod 0666 /dev/net/tun (until the next boot), or run as root"
    return Said("warn", f"no network for guests: a TAP fails: {tried.said}", do)


def overlay(host: Host) -> Said:
    """Writes of a container go to memory."""
    tried = host.attempt("overlay", inside=True)
    if tried.ok:
        return Said("ok", "this host's files can be shown with writes in memory")
    return Said(
        "warn",
        f"no overlay in a user namespace: {tried.said}",
        "as root: modprobe overlay; the kernel must be 5.11 or newer (uname -r)",
    )


def cgroup(host: Host) -> Said:
    """Limits a container's memory and counts its CPU time."""
    if host.at(f"{_CGROUP}/cgroup.controllers").exists():
        own = _own_cgroup(host)
        do = "start it as: systemd-run --user --scope -p Delegate=yes hypertare ..."
        by_hand = f"or as root: {_HAND_DOWN}"
        if not os.access(host.at(str(own)), os.W_OK):
            return Said("warn", "cgroup v2, but its own group may not be written", do)
        if not any(_hands_memory_down(host, place) for place in (own, *own.parents)):
            return Said(
                "warn", "cgroup v2, but none can be made that limits memory", f"{do}, {by_hand}"
            )
        return Said("ok", "cgroup v2, and groups can be made that limit memory")
    no_limits = "a container has no memory limit, a guest no CPU weight"
    if host.at(f"{_CGROUP}/unified/cgroup.controllers").exists():
        return Said("warn", f"cgroup v1 holds the controllers: {no_limits}", _UNIFY)
    by_process = f"{no_limits}, and CPU time is counted by process"
    if host.at(f"{_CGROUP}/memory").is_dir():
        return Said("warn", f"cgroup v1 alone, which is not used: {by_process}", _UNIFY)
    mount = f"as root: mount -t cgroup2 none {_CGROUP}; {_HAND_DOWN}"
    return Said("warn", f"no cgroups: {by_process}", mount)


def _own_cgroup(host: Host) -> Path:
    """This process's own, where it is mounted."""
    lines = (host.read("/proc/self/cgroup") or "").splitlines()
    own = next((line[3:] for line in lines if line.startswith("0::")), "/")
    # Outside of what the mount shows it begins with `/..`.
    return Path(_CGROUP) if ".." in Path(own).parts else Path(_CGROUP, own.lstrip("/"))


def _hands_memory_down(host: Host, place: Path) -> bool:
    """Whether groups that are made in this one can limit memory."""
    controllers = (host.read(f"{place}/cgroup.subtree_control") or "").split()
    return "memory" in controllers and os.access(host.at(str(place)), os.W_OK)


def _allow(host: Host) -> str:
    """What forbids user namespaces differs by distribution."""
    for setting, forbids, allows in (
        ("kernel.unprivileged_userns_clone", "0", "1"),
        ("kernel.apparmor_restrict_unprivileged_userns", "1", "0"),
        ("user.max_user_namespaces", "0", "10000"),
    ):
        if host.read(f"/proc/sys/{setting.replace('.', '/')}") == forbids:
            return f"as root: sysctl {setting}={allows}"
    return (
        "run as root; in a container: run it with --privileged; if unshare is missing, as root: "
        "apt-get install util-linux"
    )


def perf_events(host: Host) -> Said:
    """Whether the CPU counts cycles and instructions for us."""
    tried = host.attempt("perf", inside=False)
    if tried.ok:
        return Said("ok", "the CPU's counters count")
    level = host.read("/proc/sys/kernel/perf_event_paranoid")
    if level is not None and level.lstrip("-").isdigit() and int(level) > 2:
        what = f"the CPU's counters are forbidden (perf_event_paranoid {level})"
        return Said("info", what, "as root: sysctl kernel.perf_event_paranoid=0")
    return Said(
        "info",
        f"the CPU's counters do not count: {tried.said}; costs are given in time alone",
        "in a virtual machine: let its hypervisor pass the PMU on (QEMU: -cpu host,pmu=on)",
    )


def tracing(host: Host) -> Said:
    """Whether the kernel's tracepoints can be read."""
    for place in ("/sys/kernel/tracing", "/sys/kernel/debug/tracing"):
        try:
            if host.at(f"{place}/events").is_dir():
                return Said("ok", f"tracepoints can be read in {place}")
        except PermissionError:
            break
    return Said(
        "info",
        "the kernel's tracepoints cannot be read",
        "as root: mount -t tracefs nodev /sys/kernel/tracing",
    )
