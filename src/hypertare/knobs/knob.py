"""What a knob is: where it is set, what the agent sets, and what a person types for it.

Each has one file beside this one, and stands in `registry.py`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar, Generic, Literal, Self, TypeVar

from pydantic import Field, model_validator

from hypertare.base.settings import Settings
from hypertare.platforms.commands import Maker
from hypertare.protocol import plan

Count = Annotated[int, Field(ge=0, le=(1 << 31) - 1)]
Weight = Annotated[int, Field(ge=1, le=65535)]
"""Of a scheduler: xl(1), sched-credit and sched-credit2."""

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
"""`link`: both ends of each link. `way`: the same, and what the machine itself has between them.
`interface`: those of what is under test. `line`: the cards at both ends of a line. `uplink`: the NICs by
which a driver domain sends what guests do, by their MAC addresses. `driver`: the driver domain. `guest`:
each guest that works. `kernel`: the one that the work runs on. `below`: the machine below a guest.
"""

OF_GIVEN: tuple[Place, ...] = ("link", "way", "interface", "kernel")
"""Those that a machine has which was there before: it is known from inside alone."""

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
    """A level of which each part may be left as it is, but not all."""

    @model_validator(mode="after")
    def _something(self) -> Self:
        if not self.model_fields_set:
            raise ValueError("nothing is set")
        return self


class KnobKind(ABC, Generic[T]):
    """A knob whose level in a study is a T. `name` is its key in `[knobs]`.

    `commands` say how a person sets it: by the key below its own, `*` for any, or by none where its
    level is no table.
    """

    name: ClassVar[str]
    place: ClassVar[Place]
    commands: ClassVar[Mapping[str, Maker]]

    for_own_machines: ClassVar[bool] = False
    """It is set only where what is under test is no part of this host, whose own it is to choose."""

    is_of_interface: ClassVar[bool] = False
    """It is of one interface of a node, and not of its kernel."""

    modules: ClassVar[tuple[str, ...]] = ()
    """Of the kernel of a driver domain that sets it, which loads none by itself."""

    @abstractmethod
    def for_agent(self, level: T, target: Target) -> Iterator[plan.Knob]:
        """What the agent sets."""
