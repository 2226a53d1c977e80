"""What a knob is: its place, the agent's settings for it, and the user's commands.

Each knob stands in a file beside this one, alone or with those that one reads with it, and has an entry in
`registry.py`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, Generic, Literal, Self, TypeVar

from pydantic import BeforeValidator, Field, model_validator

from hypertare.base.closed import Settings
from hypertare.platforms.commands import Maker
from hypertare.protocol import plan

Count = Annotated[int, Field(ge=0, le=(1 << 31) - 1)]
Weight = Annotated[int, Field(ge=1, le=65535)]
"""Of a scheduler: xl(1), sched-credit and sched-credit2."""


def _listed(given: object) -> object:
    """Turns `256,512`, as the level of a factor has it, into a list of numbers."""
    if isinstance(given, str) and re.fullmatch(r"[0-9]{1,9}(,[0-9]{1,9})*", given):
        return [int(part) for part in given.split(",")]
    return given


Weights = Annotated[tuple[Weight, ...], BeforeValidator(_listed)]
"""Of several guests, in their order."""

Place = Literal[
    "link",
    "way",
    "interface",
    "line",
    "uplink",
    "driver",
    "guest",
    "kernel",
    "below",
]
"""Where a knob is set.

- `link`: both ends of each link.
- `way`: the same, and the machine's own bridges and NICs between both ends.
- `interface`: the interfaces of the systems under test.
- `line`: the cards at both ends of a line.
- `uplink`: the NICs by which a driver domain sends for its guests, by their MAC addresses.
- `driver`: the driver domain.
- `guest`: each guest that works.
- `kernel`: the kernel that the work runs on.
- `below`: the machine below a guest.
"""

OF_GIVEN: tuple[Place, ...] = ("link", "way", "interface", "kernel")
"""Places that exist on a given machine, which hypertare sees from inside alone."""

T = TypeVar("T")


@dataclass(frozen=True)
class Target:
    """Where a knob is set: the node that sets it, and which of its interfaces or guests it is about.

    `rank` counts the guests of a trial from 0. `between`: the interface is a bridge, of which each port is
    meant, or a NIC, between both ends.
    """

    node: str
    interface: str = ""
    between: Literal["no", "ports", "itself"] = "no"
    guest: str | None = None
    rank: int = 0


class SomeOf(Settings):
    """Base class of levels with several parts, of which at least one must be set."""

    @model_validator(mode="after")
    def _something(self) -> Self:
        if not self.model_fields_set:
            raise ValueError("nothing is set")
        return self


@dataclass(frozen=True, eq=False)
class KnobKind(Generic[T]):
    """A knob whose level in a study is a T. `name` is its key in `[knobs]`.

    `commands` holds the commands by which a user sets the knob. Its keys are the keys of the level's table,
    `*` for any key, or the empty text if the level is no table.
    """

    name: str
    place: Place
    commands: Mapping[str, Maker]
    for_agent: Callable[[T, Target], Iterable[plan.Knob]]
    """Makes the agent's settings for a level of this knob at a target."""
    for_own_machines: bool = False
    """Whether it is set only on systems under test that are no part of this host."""
    is_of_interface: bool = False
    """It is of one interface of a node, and not of its kernel."""
    modules: tuple[str, ...] = ()
    """Kernel modules that a driver domain needs to set it; its kernel loads none by itself."""
