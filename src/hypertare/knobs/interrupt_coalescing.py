"""`knobs.interrupt_coalescing`: how long a NIC waits for more before it interrupts."""

from __future__ import annotations

from hypertare.knobs.knob import Count, KnobKind, SomeOf
from hypertare.platforms.commands import Entry, KnobChange, by_ethtool, on_or_off, one_line
from hypertare.protocol import plan


class CoalescingSettings(SomeOf):
    """As in ethtool(8); what is not given stays as it is."""

    rx_usecs: Count | None = None
    rx_frames: Count | None = None
    tx_usecs: Count | None = None
    tx_frames: Count | None = None
    adaptive_rx: bool | None = None


def _typed(change: KnobChange) -> Entry:
    name = change.key.replace("_", "-")
    show = on_or_off if name.startswith("adaptive") else one_line
    return by_ethtool(change, "c", name, show)


INTERRUPT_COALESCING = KnobKind[CoalescingSettings](
    name="interrupt_coalescing",
    place="interface",
    is_of_interface=True,
    commands={"*": _typed},
    for_own_machines=True,
    for_agent=lambda level, target: [
        plan.InterruptCoalescing(interface=target.interface, **level.model_dump())
    ],
)
