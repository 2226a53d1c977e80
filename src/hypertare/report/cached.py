"""Files in the cache that pages are made with and that take long to make."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from hypertare.base.paths import cache_dir


def cached_file(name: str) -> Path:
    """Returns the path of a file in the cache, which need not exist."""
    return cache_dir() / "scripts" / name


def keep(file: Path, data: bytes) -> None:
    """Gives the file its name once it is whole: until then it has none that could be left behind.

    A cache that cannot be written costs the time again next time, no more.
    """
    with suppress(OSError):
        file.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(file.parent, os.O_TMPFILE | os.O_WRONLY, 0o644)
        with os.fdopen(handle, "wb") as made:
            made.write(data)
            made.flush()
            # With a directory's descriptor, which an absolute path does not need, links are followed.
            os.link(f"/proc/self/fd/{handle}", file, src_dir_fd=handle)
