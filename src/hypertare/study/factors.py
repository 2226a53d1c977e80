"""Paths to settings, and combinations of their levels."""

from __future__ import annotations

import itertools
from typing import Any

from hypertare.base.level import Level

GUESTS = "sut.guests"
"""How many work at once; a bench has as many as any cell needs, so it needs no bench of its own."""


def is_easy(path: str, workload: str) -> bool:
    """Whether it can be varied from trial to trial on one bench: a factor of guests picks the first
    ones of those that stand there.
    """
    return path == GUESTS or path.startswith((f"workloads.{workload}.", "knobs."))


def combinations(factors: dict[str, tuple[Any, ...]]) -> list[dict[str, Level]]:
    """All combinations of levels, in the factors' order (a full factorial)."""
    return [
        dict(zip(factors, levels, strict=True)) for levels in itertools.product(*factors.values())
    ]
