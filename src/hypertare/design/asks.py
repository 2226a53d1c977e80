"""A setting that somebody asks to have measured."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from hypertare.base.level import Cell, Level


@dataclass(frozen=True)
class Ask:
    """A setting to be measured: `levels` is put into the study, `cell` names it in the journal.

    On a machine that draws chance from a seed, the seed follows from `replicate`, or from the block if
    `replicate` is None. One with a `replicate` shares its boot with no other.
    """

    levels: Mapping[str, Level | None]
    cell: Cell
    replicate: int | None = None
