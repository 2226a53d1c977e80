"""Levels of factors as charts and tables have them."""

from __future__ import annotations

from collections.abc import Iterable

from hypertare.base.units import parse_of_capacity, parse_rate, parse_size
from hypertare.base.variables import Level

OF_CAPACITY = "% of capacity"


def shown(level: Level) -> str:
    if isinstance(level, bool):
        return "on" if level else "off"
    return str(level).replace(f" {OF_CAPACITY}", " %")


def number(level: Level) -> float | None:
    """What an axis of numbers has for a level: per cent of a capacity, b/s, bytes, or the number."""
    if isinstance(level, bool):
        return None
    if isinstance(level, int | float):
        return float(level)
    share = parse_of_capacity(level)
    return None if share is None else 100 * share


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


def in_order(found: Iterable[Level]) -> list[str]:
    """Their texts, each once, by what they mean."""
    known = {shown(level): level for level in found}
    return sorted(known, key=lambda text: order(known[text]))
