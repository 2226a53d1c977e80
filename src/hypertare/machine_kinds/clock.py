"""By what a machine's time passes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

ClockName = Literal["wall", "virtual"]
"""As `clock` of a study has them."""


@dataclass(frozen=True)
class Clock:
    """A clock that `repeats` gives the same plan the same records, whatever else its host does: what is
    known is not measured again, and several machines disturb nobody. One that `counts_instructions` has a
    single count, each as long as any other: what hardware adds, as page walks, is not in it.
    """

    name: ClockName
    repeats: bool
    counts_instructions: bool


CLOCKS: dict[str, Clock] = {
    clock.name: clock
    for clock in (
        Clock("wall", repeats=False, counts_instructions=False),
        Clock("virtual", repeats=True, counts_instructions=True),
    )
}
