"""Levels of factors, and the cells that they make. Pure."""

from __future__ import annotations

from collections.abc import Mapping

Level = str | int | float | bool


Cell = dict[str, Level]


def key(cell: Mapping[str, Level]) -> frozenset[tuple[str, str, Level]]:
    """Returns a key that is equal for equal cells, whatever the order of factors; `True` and 1 differ."""
    return frozenset((factor, type(level).__name__, level) for factor, level in cell.items())


def same(one: Level, other: Level) -> bool:
    """Whether two levels are the same; `True` is not 1."""
    return one == other and isinstance(one, bool) == isinstance(other, bool)
