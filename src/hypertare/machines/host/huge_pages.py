"""Pages of 2 MB that this host has set aside (hugetlb), and setting aside some more.

Linux, Documentation/admin-guide/mm/hugetlbpage.rst.
"""

from __future__ import annotations

from dataclasses import dataclass

from hypertare.base.errors import MachineError
from hypertare.base.host_files import Host

_FOLDER = "/sys/kernel/mm/hugepages/hugepages-2048kB"


@dataclass(frozen=True)
class HugePages:
    """Counts of pages: set aside in all, and of those neither used nor promised to anybody."""

    total: int
    free: int


def find_huge_pages(host: Host) -> HugePages | None:
    """None where the kernel or the processor has none of 2 MB.

    Raises:
        MachineError: what the kernel says of them is no number.
    """
    total, free, promised = (_count(host, name) for name in ("nr", "free", "resv"))
    if total is None or free is None:
        return None
    return HugePages(total, max(0, free - (promised or 0)))


def _count(host: Host, name: str) -> int | None:
    path = f"{_FOLDER}/{name}_hugepages"
    text = host.read(path)
    if text is None:
        return None
    if not text.isdecimal():
        raise MachineError(
            f"{path} says {text!r}, which is no number of pages.",
            'Is that /sys the kernel\'s own? Take sut.pages = "4K" or "thp".',
        )
    return int(text)


def set_huge_pages(host: Host, total: int) -> None:
    """Sets so many pages aside; fewer where the kernel does not find them.

    Raises:
        MachineError: the kernel does not let us.
    """
    try:
        host.at(f"{_FOLDER}/nr_hugepages").write_text(f"{total}\n")
    except OSError as error:
        raise MachineError(
            f"pages of 2 MB cannot be set aside: {error.strerror} ({_FOLDER}/nr_hugepages)",
            "Run as root, on a host whose /sys may be written.",
        ) from None
