"""Memory: enough of it, and handed out the same way every time."""

from __future__ import annotations

from hypertare.base.host_files import Host
from hypertare.base.units import human_size
from hypertare.doctor.finding import Finding
from hypertare.machines.host import kvm
from hypertare.machines.host.huge_pages import find_huge_pages
from hypertare.protocol.constants import HUGE_PAGE

_LEAST = 512 << 20
_COMFORTABLE = 2 << 30
_MM = "/sys/kernel/mm"


def memory(host: Host) -> Finding:
    """Room for guests and for files laid in memory."""
    free = host.memory.get("MemAvailable", 0)
    what = f"{free / 2**30:.1f} GiB of memory are available"
    do = "end what takes it (ps -eo rss,comm --sort=-rss | head), or give --memory 256M"
    if free < _LEAST:
        return Finding("memory", "bad", f"{what}; a guest and its files need 0.5 GiB", do)
    if free < _COMFORTABLE:
        return Finding("memory", "warn", f"{what}: few guests fit at once", do)
    return Finding("memory", "ok", what)


def swap(host: Host) -> Finding:
    """Whether memory was moved to disk."""
    total = host.memory.get("SwapTotal", 0)
    used = total - host.memory.get("SwapFree", 0)
    if used:
        return Finding(
            "swap",
            "warn",
            f"{used >> 20} MiB are swapped out: bringing them back falls into a trial",
            "as root: swapoff -a",
        )
    return Finding("swap", "ok", "swap is there but unused" if total else "there is no swap")


def huge_pages(host: Host) -> Finding:
    """Whether pages of 2 MB are set aside, and for how much of a guest's memory."""
    found = find_huge_pages(host)
    if found is None:
        return Finding("huge_pages", "info", "the kernel has no pages of 2 MB to set aside")
    do = (
        'for sut.pages = "2M", as root: sysctl vm.nr_hugepages=512 (1 GiB), '
        "or hypertare run --allow-huge-pages"
    )
    if not found.total:
        return Finding("huge_pages", "info", "no huge pages are set aside", do)
    room = human_size(found.free * HUGE_PAGE)
    what = f"{found.free} of {found.total} huge pages are free: guests of up to {room} in all"
    if not found.free:
        return Finding("huge_pages", "info", f"all of {found.total} huge pages are in use", do)
    return Finding("huge_pages", "ok", what)


def paging(host: Host) -> Finding:
    """Which page tables KVM gives its guests."""
    module = kvm.find(host)
    if module is None:
        return Finding("paging", "info", f"no page tables of guests: {kvm.why_missing(host)}")
    if module.paging is None:
        return Finding(
            "paging", "info", f"{module.name} does not report which page tables it gives"
        )
    what = f"guests under KVM have {module.paging} page tables ({module.described})"
    if module.paging == "nested":
        return Finding("paging", "ok", what)
    return Finding(
        "paging",
        "warn",
        f"{what}: each of their changes leaves the guest",
        f"as root, with no guest running: rmmod {module.name}; "
        f"modprobe {module.name} {module.option('nested')}; if that changes nothing, "
        "the processor has none",
    )


def thp(host: Host) -> Finding:
    """Whether the kernel merges pages into large ones behind the work's back."""
    text = host.read(f"{_MM}/transparent_hugepage/enabled")
    if text is None:
        return Finding("thp", "ok", "the kernel has no transparent huge pages")
    mode = next((word[1:-1] for word in text.split() if word.startswith("[")), text)
    if mode != "always":
        return Finding("thp", "ok", f"transparent huge pages: {mode}")
    return Finding(
        "thp",
        "info",
        "transparent huge pages: always; how many the work gets depends on how memory lies",
        f"to hold it constant, as root: echo madvise > {_MM}/transparent_hugepage/enabled",
    )


def ksm(host: Host) -> Finding:
    """Whether equal pages of guests are merged."""
    run = host.read(f"{_MM}/ksm/run")
    if run != "1":
        return Finding("ksm", "ok", "equal pages are not merged")
    return Finding(
        "ksm",
        "warn",
        "equal pages are merged (KSM): a write to one costs a copy, and the scan costs CPU",
        f"as root: echo 2 > {_MM}/ksm/run",
    )
