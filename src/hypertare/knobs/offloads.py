"""`knobs.offloads`: what a NIC does in place of the kernel, by ethtool's names."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from hypertare.knobs.knob import KnobKind, Target
from hypertare.platforms.commands import Entry, KnobChange, by_ethtool, on_or_off
from hypertare.protocol import plan


def _typed(change: KnobChange) -> Entry:
    note = "It was set on both ends of the link and on the ports between: of the bridge, the TAP device."
    return replace(by_ethtool(change, "k", change.key, on_or_off), note=note)


def _for_agent(level: dict[str, bool], target: Target) -> Iterator[plan.Knob]:
    """An offload that is off is set at both ends and on the ports between them: packets that are joined on
    the way arrive joined. An offload that is on is set at both ends alone, for ports may lack it.
    """
    ports = target.between == "ports"
    for offload, on in level.items():
        if target.between == "no" or not on:
            yield plan.Offload(interface=target.interface, offload=offload, on=on, ports=ports)


OFFLOADS = KnobKind[dict[str, bool]](
    name="offloads",
    place="way",
    is_of_interface=True,
    commands={"*": _typed},
    for_agent=_for_agent,
)
