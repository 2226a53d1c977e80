"""How many descriptors the rings of a card have, and those at the line's ends."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field

from hypertare.knobs.knob import Count, KnobKind, SomeOf
from hypertare.platforms.commands import Entry, KnobChange, by_ethtool
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


LEAST, MOST = 32, 256
"""Descriptors of a ring of QEMU's virtio-net. Its driver keeps 18 of them free (Linux 6.1,
drivers/net/virtio_net.c: it stops below 2 + MAX_SKB_FRAGS), so fewer than 32 hold no frame."""


def _parse(given: object) -> object:
    """A study's own ring may have to go with its line: `none`."""
    return None if given == "none" else given


def _power_of_two(descriptors: int) -> int:
    if descriptors & (descriptors - 1):
        raise ValueError("a ring has 32, 64, 128 or 256 descriptors, or is 'none', the card's own")
    return descriptors


RingLength = Annotated[
    Annotated[int, Field(ge=LEAST, le=MOST), AfterValidator(_power_of_two)] | None,
    BeforeValidator(_parse),
]


def _typed(change: KnobChange) -> Entry:
    note = "IFACE is the host's NIC, by which guests reach others."
    return replace(by_ethtool(change, "g", "tx"), where="host", note=note)


LINE_RING = KnobKind[int](
    name="line_ring",
    place="line",
    commands={"": _typed},
    for_agent=lambda level, target: [plan.RingSizes(interface=target.interface, tx=level)],
)
