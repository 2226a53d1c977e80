"""Asks programs for their versions in threads, while the rest of a start goes on.

This module imports next to nothing: it must be loaded before the other imports, which take as long as the
answers.
"""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor

from hypertare.base.arch import ARCH
from hypertare.base.host_files import Host
from hypertare.base.paths import CHECKOUT


class Asked:
    """Versions that are being asked for at the same time; each field is a future."""

    def __init__(self, host: Host | None = None) -> None:
        self.host = host or Host()
        asking = ThreadPoolExecutor()
        self.commit = asking.submit(_commit, self.host)
        self.qemu = asking.submit(first_number, self.host, (ARCH.qemu, "--version"))
        asking.shutdown(wait=False)


def first_number(host: Host, argv: tuple[str, ...]) -> str | None:
    """Returns the first number with dots in a program's output; None if there is no such number."""
    found = re.search(r"\d+\.\d+\S*", host.run(argv, 10.0).out)
    return found[0] if found else None


def _commit(host: Host) -> str | None:
    """Returns the git commit of the running source, with a + for changes; None outside a checkout."""
    if not (CHECKOUT / ".git").exists():
        return None
    git = ("git", "-C", str(CHECKOUT), "describe", "--always", "--exclude=*", "--dirty=+")
    said = host.run(git, 10.0)
    return said.out.strip() if said.ok else None
