"""Programs that are asked for their versions, beside whatever else a start has to do.

Imports next to nothing, for it comes before the other imports, which take as long as the answers.
"""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor

from hypertare.base.host_files import Host
from hypertare.base.paths import CHECKOUT

QEMU = "qemu-system-x86_64"


class Asked:
    """Answers to come, all at the same time."""

    def __init__(self, host: Host | None = None) -> None:
        self.host = host or Host()
        asking = ThreadPoolExecutor()
        self.commit = asking.submit(_commit, self.host)
        self.qemu = asking.submit(first_number, self.host, (QEMU, "--version"))
        asking.shutdown(wait=False)


def first_number(host: Host, argv: tuple[str, ...]) -> str | None:
    """Of what a program says; none where it is not there."""
    found = re.search(r"\d+\.\d+\S*", host.run(argv, 10.0).out)
    return found[0] if found else None


def _commit(host: Host) -> str | None:
    """Of the source that runs, where it is a checkout; a + behind it says that files were changed."""
    if not (CHECKOUT / ".git").exists():
        return None
    git = ("git", "-C", str(CHECKOUT), "describe", "--always", "--exclude=*", "--dirty=+")
    said = host.run(git, 10.0)
    return said.out.strip() if said.ok else None
