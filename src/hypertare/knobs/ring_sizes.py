"""`knobs.ring_sizes`: how many frames a NIC's rings have room for."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from hypertare.knobs.knob import Count, KnobKind, SomeOf
from hypertare.platforms.commands import by_ethtool
from hypertare.protocol import plan

Descriptors = Annotated[Count, Field(ge=1)]


class RingSettings(SomeOf):
    """Descriptors, as in ethtool(8); what is not given stays as it is."""

    rx: Descriptors | None = None
    tx: Descriptors | None = None


RING_SIZES = KnobKind[RingSettings](
    name="ring_sizes",
    place="interface",
    is_of_interface=True,
    commands={"*": lambda change: by_ethtool(change, "g", change.key)},
    for_own_machines=True,
    for_agent=lambda level, target: [
        plan.RingSizes(interface=target.interface, **level.model_dump())
    ],
)
