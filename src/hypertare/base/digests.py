"""SHA-256 of files that do not change while this process works."""

from __future__ import annotations

import hashlib
import threading
from pathlib import Path


class Digests:
    """Each file is read once, whichever thread asks."""

    def __init__(self) -> None:
        self._known: dict[Path, str] = {}
        self._lock = threading.Lock()

    def of(self, path: Path) -> str:
        """In hexadecimal digits."""
        with self._lock:
            known = self._known.get(path)
        if known is None:
            with path.open("rb") as file:
                known = hashlib.file_digest(file, "sha256").hexdigest()
            with self._lock:
                self._known[path] = known
        return known
