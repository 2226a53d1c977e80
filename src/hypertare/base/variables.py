"""What a study varies and what it measures: levels of factors, cells, responses. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

Better = Literal["higher", "lower"]
OfGuests = Literal["sum", "mean", "most"]

Found = dict[str, float | None]
"""Values by the name of their response; None where a value could not be had."""

Values = dict[str, float]
"""Values by the name of their response, without those that could not be had."""

VIRTUAL = " (virtual)"
"""Marks the unit of every number of virtual time, so that nobody takes it for one of the wall clock."""

ELAPSED = "elapsed"
"""The response that modelled page walks are added to."""


@dataclass(frozen=True)
class Response:
    """A measured quantity.

    `name` is the field's word for it, `unit` its unit, `better` the direction that a user wants.
    `of_guests` is what several guests that work at once have of it together.
    """

    name: str
    unit: str
    better: Better
    title: str
    of_guests: OfGuests = "sum"

    @property
    def is_index(self) -> bool:
        """Whether the quantity, and so each end of its interval, lies between 0 and 1 by definition."""
        return self.unit.startswith("index")


def whole(parts: Sequence[float | None]) -> float | None:
    """Returns the sum, or None if a part is not known: the sum of the others would pass for the whole."""
    found = [part for part in parts if part is not None]
    return sum(found) if len(found) == len(parts) else None


def known(values: Mapping[str, float | None]) -> dict[str, float]:
    """Returns the values without those that are None."""
    return {name: value for name, value in values.items() if value is not None}


Level = str | int | float | bool


Cell = dict[str, Level]


def key(cell: Mapping[str, Level]) -> frozenset[tuple[str, str, Level]]:
    """Returns a key that is equal for equal cells, whatever the order of factors; `True` and 1 differ."""
    return frozenset((factor, type(level).__name__, level) for factor, level in cell.items())


def same(one: Level, other: Level) -> bool:
    """Whether two levels are the same; `True` is not 1."""
    return one == other and isinstance(one, bool) == isinstance(other, bool)
