"""What the model of page walks takes for given."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Options:
    """`cycles_per_instruction`: of the program if translation cost nothing. `cache_share`: of every
    cache, what page tables may hold."""

    cycles_per_instruction: float
    cache_share: float
