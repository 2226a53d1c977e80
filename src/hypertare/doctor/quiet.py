"""What moves numbers from trial to trial: clock speeds, neighbours, other work, memory."""

from __future__ import annotations

from hypertare.base.host_files import Host
from hypertare.base.units import human_size
from hypertare.doctor.finding import Said
from hypertare.machines.host import kvm
from hypertare.machines.host.settings import find_huge_pages
from hypertare.protocol.constants import HUGE_PAGE

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


_LEAST = 512 << 20
_COMFORTABLE = 2 << 30
_MM = "/sys/kernel/mm"


def memory(host: Host) -> Said:
    """Room for guests and for files laid in memory."""
    free = host.memory.get("MemAvailable", 0)
    what = f"{free / 2**30:.1f} GiB of memory are available"
    do = "end what takes it (ps -eo rss,comm --sort=-rss | head), or give --memory 256M"
    if free < _LEAST:
        return Said("bad", f"{what}; a guest and its files need 0.5 GiB", do)
    if free < _COMFORTABLE:
        return Said("warn", f"{what}: few guests fit at once", do)
    return Said("ok", what)


def swap(host: Host) -> Said:
    """Whether memory was moved to disk."""
    total = host.memory.get("SwapTotal", 0)
    used = total - host.memory.get("SwapFree", 0)
    if used:
        return Said(
            "warn",
            f"{used >> 20} MiB are swapped out: bringing them back falls into a trial",
            "as root: swapoff -a",
        )
    return Said("ok", "swap is there but unused" if total else "there is no swap")


def huge_pages(host: Host) -> Said:
    """Whether pages of 2 MB are set aside, and for how much of a guest's memory."""
    found = find_huge_pages(host)
    if found is None:
        return Said("info", "the kernel has no pages of 2 MB to set aside")
    do = (
        'for sut.pages = "2M", as root: sysctl vm.nr_hugepages=512 (1 GiB), '
        "or hypertare run --allow-huge-pages"
    )
    if not found.total:
        return Said("info", "no huge pages are set aside", do)
    room = human_size(found.free * HUGE_PAGE)
    what = f"{found.free} of {found.total} huge pages are free: guests of up to {room} in all"
    if not found.free:
        return Said("info", f"all of {found.total} huge pages are in use", do)
    return Said("ok", what)


def paging(host: Host) -> Said:
    """Which page tables KVM gives its guests."""
    module = kvm.find(host)
    if module is None:
        return Said("info", f"no page tables of guests: {kvm.why_missing(host)}")
    if module.paging is None:
        return Said("info", f"{module.name} does not report which page tables it gives")
    what = f"guests under KVM have {module.paging} page tables ({module.described})"
    if module.paging == "nested":
        return Said("ok", what)
    return Said(
        "warn",
        f"{what}: each of their changes leaves the guest",
        f"as root, with no guest running: rmmod {module.name}; "
        f"modprobe {module.name} {module.option('nested')}; if that changes nothing, "
        "the processor has none",
    )


def thp(host: Host) -> Said:
    """Whether the kernel merges pages into large ones behind the work's back."""
    text = host.read(f"{_MM}/transparent_hugepage/enabled")
    if text is None:
        return Said("ok", "the kernel has no transparent huge pages")
    mode = next((word[1:-1] for word in text.split() if word.startswith("[")), text)
    if mode != "always":
        return Said("ok", f"transparent huge pages: {mode}")
    return Said(
        "info",
        "transparent huge pages: always; how many the work gets depends on how memory lies",
        f"to hold it constant, as root: echo madvise > {_MM}/transparent_hugepage/enabled",
    )


def ksm(host: Host) -> Said:
    """Whether equal pages of guests are merged."""
    run = host.read(f"{_MM}/ksm/run")
    if run != "1":
        return Said("ok", "equal pages are not merged")
    return Said(
        "warn",
        "equal pages are merged (KSM): a write to one costs a copy, and the scan costs CPU",
        f"as root: echo 2 > {_MM}/ksm/run",
    )
