"""A measured quantity. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Better = Literal["higher", "lower"]


OfGuests = Literal["sum", "mean", "most"]


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
        """Whether it lies between 0 and 1 by its definition, and so does what is known of it."""
        return self.unit.startswith("index")
