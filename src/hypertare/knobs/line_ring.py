"""`knobs.line_ring`: how many frames the cards at the ends of a line hold."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field

from hypertare.knobs.knob import KnobKind
from hypertare.platforms.commands import Entry, KnobChange, by_ethtool
from hypertare.protocol import plan

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
