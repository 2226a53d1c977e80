"""Which boots run on two workers: virtual time must not depend on where it is made. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence

SHARE = 0.02
"""Of all boots; and each worker has a part in one, where there are boots enough."""


class Checks:
    """Counts boots and chooses, for some of them, the two workers."""

    def __init__(self) -> None:
        self._boots = 0
        self._pairs = 0
        self._of: dict[str, int] = {}

    def pair(self, workers: Sequence[str]) -> tuple[str, str] | None:
        """Two workers for the next boot, those first that had the fewest; none where one will do."""
        self._boots += 1
        if len(workers) < 2:
            return None
        one, other = sorted(workers, key=lambda worker: (self._of.get(worker, 0), worker))[:2]
        if self._pairs >= math.ceil(SHARE * self._boots) and self._of.get(one):
            return None
        self._pairs += 1
        for worker in (one, other):
            self._of[worker] = self._of.get(worker, 0) + 1
        return one, other
