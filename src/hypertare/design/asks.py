"""A setting that somebody asks to have measured."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from hypertare.base.level import Cell, Level


@dataclass(frozen=True)
class Ask:
    """A setting to be measured: `levels` is put into the study, `cell` names it in the journal.

    Where a seed moves what chance moves elsewhere it follows from `replicate`, else from the block.
    """

    levels: Mapping[str, Level | None]
    cell: Cell
    replicate: int | None = None
