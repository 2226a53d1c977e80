"""SHA-256 of files."""

from __future__ import annotations

import hashlib
import threading
from pathlib import Path


def digest_of(path: Path) -> str:
    """In hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


class Digests:
    """Of files that do not change while this process works: each is read once, whichever thread asks."""

    def __init__(self) -> None:
        self._known: dict[Path, str] = {}
        self._lock = threading.Lock()

    def of(self, path: Path) -> str:
        with self._lock:
            known = self._known.get(path)
        if known is None:
            known = digest_of(path)
            with self._lock:
                self._known[path] = known
        return known
