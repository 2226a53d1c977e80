"""`knobs.ring_sizes`: how many frames a NIC's rings have room for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

from pydantic import Field

from hypertare.knobs.knob import Count, KnobKind, SomeOf, Target
from hypertare.platforms.commands import Entry, KnobChange, by_ethtool
from hypertare.protocol import plan

Descriptors = Annotated[Count, Field(ge=1)]


class RingSettings(SomeOf):
    """Descriptors, as in ethtool(8); what is not given stays as it is."""

    rx: Descriptors | None = None
    tx: Descriptors | None = None


def _typed(change: KnobChange) -> Entry:
    return by_ethtool(change, "g", change.key)


class RingSizes(KnobKind[RingSettings]):
    name = "ring_sizes"
    place = "interface"
    is_of_interface = True
    commands = {"*": _typed}
    for_own_machines = True

    def for_agent(self, level: RingSettings, target: Target) -> Iterator[plan.Knob]:
        yield plan.RingSizes(interface=target.interface, **level.model_dump())


RING_SIZES = RingSizes()
