"""What moves numbers from trial to trial: clock speeds, neighbours, other work."""

from __future__ import annotations

from hypertare.base.host_files import Host
from hypertare.doctor.finding import Said

_CPU = "/sys/devices/system/cpu"
_STEAL_LIMIT = 0.01
_BUSY_LIMIT = 0.05
_UNREADABLE = Said("info", "/proc or /sys does not show it", "mount them: mount -t proc proc /proc")
_STEADY = ("tsc", "kvm-clock", "arch_sys_counter", "hyperv_clocksource_tsc_page")


def governor(host: Host) -> Said:
    """Whether the CPUs keep one speed."""
    found = sorted(set(host.read_all(f"{_CPU}/cpu[0-9]*/cpufreq/scaling_governor").values()))
    if not found:
        return Said("info", "this machine does not show its CPUs' speed control")
    if found == ["performance"]:
        return Said("ok", "every CPU runs under the performance governor")
    return Said(
        "warn",
        f"CPU speed follows the load (governor {', '.join(found)})",
        f"as root: echo performance | tee {_CPU}/cpu*/cpufreq/scaling_governor",
    )


def turbo(host: Host) -> Said:
    """Whether a CPU runs faster while its neighbours idle."""
    for path, on in ((f"{_CPU}/intel_pstate/no_turbo", "0"), (f"{_CPU}/cpufreq/boost", "1")):
        value = host.read(path)
        if value is None:
            continue
        if value != on:
            return Said("ok", "turbo is off: speed does not depend on idle neighbours")
        off = "1" if on == "0" else "0"
        return Said(
            "warn",
            "turbo is on: a CPU's speed depends on heat and on what the other CPUs do",
            f"as root: echo {off} > {path}",
        )
    return Said("info", "this machine does not show whether its CPUs have a turbo")


def smt(host: Host) -> Said:
    """Whether two CPUs share one core."""
    active = host.read(f"{_CPU}/smt/active")
    if active is None:
        return Said("info", "this machine does not show whether CPUs share cores")
    if active == "0":
        return Said("ok", "no two CPUs share a core, as far as this machine shows")
    return Said(
        "warn",
        "CPUs share cores (SMT): work on one slows its sibling",
        f"as root: echo off > {_CPU}/smt/control; or use CPUs of different cores only, "
        f"see {_CPU}/cpu0/topology/thread_siblings_list",
    )


def steal(host: Host) -> Said:
    """Whether a hypervisor below takes CPU time away."""
    use = host.cpu_use
    if use is None:
        return _UNREADABLE
    if use.steal <= _STEAL_LIMIT:
        return Said("ok", f"steal time {use.steal:.1%} over one second")
    return Said(
        "warn",
        f"a hypervisor below took {use.steal:.1%} of the CPU time in one second",
        "use a machine with CPUs of its own (a dedicated instance); meanwhile more trials: "
        "hypertare weigh --max-trials 60",
    )


def load(host: Host) -> Said:
    """Whether other work runs."""
    use = host.cpu_use
    if use is None:
        return _UNREADABLE
    if use.busy <= _BUSY_LIMIT:
        return Said("ok", f"the CPUs are {1 - use.busy:.0%} idle")
    named = ", ".join(f"{name} {share:.0%}" for name, share in use.processes if share >= 0.01)
    busiest = f" (of one CPU: {named})" if named else ""
    return Said(
        "warn",
        f"other work takes {use.busy:.0%} of all CPU time{busiest}",
        "stop it or wait for its end; see it with: top -b -n 1 | head -20",
    )


def clocksource(host: Host) -> Said:
    """Whether reading the clock is cheap."""
    place = "/sys/devices/system/clocksource/clocksource0"
    current = host.read(f"{place}/current_clocksource")
    if current is None:
        return _UNREADABLE
    if current in _STEADY:
        return Said("ok", f"the clock is {current}, read without a system call")
    has_tsc = "tsc" in (host.read(f"{place}/available_clocksource") or "").split()
    return Said(
        "warn",
        f"the clock is {current}: reading it takes a system call or a device access",
        f"as root: echo tsc > {place}/current_clocksource"
        if has_tsc
        else "boot with tsc=reliable on the kernel's command line, if the CPU's TSC is sound "
        "(dmesg | grep -i tsc)",
    )


def cpu_isolation(host: Host) -> Said:
    """Whether CPUs are kept free of other work."""
    isolated = host.read(f"{_CPU}/isolated")
    if isolated:
        return Said("ok", f"CPUs {isolated} are isolated: give them to the nodes")
    return Said(
        "info",
        "no CPU is kept free of other work",
        "for the steadiest numbers boot with isolcpus=1-3 nohz_full=1-3 rcu_nocbs=1-3 "
        "(your CPU numbers) on the kernel's command line",
    )


def time_sync(host: Host) -> Said:
    """Whether the date is right; durations do not depend on it."""
    names = host.read_all("/proc/[0-9]*/comm").values()
    found = sorted(set(names) & {"chronyd", "ntpd", "systemd-timesyn", "ntpd-rs", "phc2sys"})
    if found:
        return Said("ok", f"the date is kept right by {', '.join(found)}")
    return Said(
        "info",
        "nothing keeps the date right; durations are right all the same, "
        "but runs of several machines cannot be ordered by date",
        "as root: apt-get install chrony",
    )
