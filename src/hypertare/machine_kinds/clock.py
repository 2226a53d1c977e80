"""The clocks of machines: wall and virtual time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

ClockName = Literal["wall", "virtual"]
"""As `clock` of a study has them."""


@dataclass(frozen=True)
class Clock:
    """A clock of a machine.

    With a clock that `repeats`, the same plan gives the same records, whatever else the host does. So known
    records are not measured again, and several machines may run at once. A clock that `counts_instructions`
    gives every instruction the same time: costs of hardware, such as page walks, are not in it.
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
