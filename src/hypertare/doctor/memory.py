"""Memory: enough of it, and handed out the same way every time."""

from __future__ import annotations

from hypertare.base.host_files import Host
from hypertare.base.units import human_size
from hypertare.doctor.finding import Said
from hypertare.machines.host import kvm
from hypertare.machines.host.huge_pages import find_huge_pages
from hypertare.protocol.constants import HUGE_PAGE

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
