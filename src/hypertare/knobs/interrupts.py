"""Interrupts of a card: how they are coalesced, on which CPUs they come, how they are deferred."""

from __future__ import annotations

import shlex
from typing import Annotated

from pydantic import Field

from hypertare.base.closed import Settings
from hypertare.knobs.knob import Count, KnobKind, SomeOf
from hypertare.platforms.commands import (
    Entry,
    KnobChange,
    by_ethtool,
    commanded,
    of_interface,
    on_or_off,
    one_line,
)
from hypertare.protocol import plan


class CoalescingSettings(SomeOf):
    """As in ethtool(8); what is not given stays as it is."""

    rx_usecs: Count | None = None
    rx_frames: Count | None = None
    tx_usecs: Count | None = None
    tx_frames: Count | None = None
    adaptive_rx: bool | None = None


def _typed_coalescing(change: KnobChange) -> Entry:
    name = change.key.replace("_", "-")
    show = on_or_off if name.startswith("adaptive") else one_line
    return by_ethtool(change, "c", name, show)


INTERRUPT_COALESCING = KnobKind[CoalescingSettings](
    name="interrupt_coalescing",
    place="interface",
    is_of_interface=True,
    commands={"*": _typed_coalescing},
    for_own_machines=True,
    for_agent=lambda level, target: [
        plan.InterruptCoalescing(interface=target.interface, **level.model_dump())
    ],
)


_typed_cpus = commanded(
    "grep IFACE /proc/interrupts",
    lambda _, value: (
        "for n in $(grep IFACE /proc/interrupts | cut -d: -f1); do "
        f"echo {shlex.quote(value)} > /proc/irq/$n/smp_affinity_list; done"
    ),
    note="OLD: what /proc/irq/N/smp_affinity_list holds, N being the interface's numbers. irqbalance "
    "would undo it: stop it.",
)


INTERRUPT_CPUS = KnobKind[tuple[int, ...]](
    name="interrupt_cpus",
    place="interface",
    is_of_interface=True,
    commands={"": _typed_cpus},
    for_own_machines=True,
    for_agent=lambda level, target: [plan.InterruptCpus(interface=target.interface, cpus=level)],
)


class DeferSettings(Settings):
    """Empty polls before the interrupt is switched on again, and nanoseconds to a timer's poll."""

    polls: Count
    flush_timeout_ns: Annotated[int, Field(ge=0, le=(1 << 63) - 1)]


DEFER_HARD_IRQS = KnobKind[DeferSettings](
    name="defer_hard_irqs",
    place="interface",
    is_of_interface=True,
    commands={
        "polls": of_interface("napi_defer_hard_irqs"),
        "flush_timeout_ns": of_interface("gro_flush_timeout", "In nanoseconds."),
    },
    for_own_machines=True,
    for_agent=lambda level, target: [
        plan.DeferHardIrqs(
            interface=target.interface, polls=level.polls, flush_timeout_ns=level.flush_timeout_ns
        )
    ],
)
