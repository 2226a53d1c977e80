"""Memory: enough of it, and handed out the same way every time."""

from __future__ import annotations

from hypertare.doctor.finding import Finding
from hypertare.doctor.host import Host

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
    """Whether 2 MiB pages are set aside."""
    total, free = host.memory.get("HugePages_Total", 0), host.memory.get("HugePages_Free", 0)
    if total:
        return Finding("huge_pages", "ok", f"{free} of {total} huge pages are free")
    return Finding(
        "huge_pages",
        "info",
        "no huge pages are set aside: guests have ordinary pages",
        "to weigh guests in 2 MiB pages, as root: sysctl vm.nr_hugepages=512",
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
