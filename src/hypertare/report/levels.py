"""Levels of factors as charts and tables have them."""

from __future__ import annotations

from hypertare.base.level import Level
from hypertare.base.units import parse_of_capacity, parse_rate, parse_size

OF_CAPACITY = "% of capacity"


def shown(level: Level) -> str:
    return (
        str(level).replace(f" {OF_CAPACITY}", " %")
        if not isinstance(level, bool)
        else ("on" if level else "off")
    )


def number(level: Level) -> float | None:
    """What an axis of numbers has for a level: per cent of a capacity, b/s, bytes, or the number."""
    if isinstance(level, bool):
        return None
    if isinstance(level, int | float):
        return float(level)
    share = parse_of_capacity(level)
    if share is not None:
        return 100 * share
    return None


def order(level: Level) -> tuple[int, float, str]:
    """Sorts levels by what they mean; words after numbers, by their letters."""
    found = number(level)
    if found is None and isinstance(level, str):
        for parse in (parse_rate, parse_size):
            try:
                found = float(parse(level))
                break
            except ValueError:
                continue
    return (1, 0.0, str(level)) if found is None else (0, found, "")
