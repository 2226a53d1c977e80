"""What can be looked at while the work runs."""

from __future__ import annotations

from hypertare.base.host_files import Host
from hypertare.doctor.finding import Said


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
