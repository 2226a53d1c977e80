"""`knobs.offloads`: what a NIC does in place of the kernel, by ethtool's names."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from hypertare.knobs.commands import Change, Entry, commanded, on_or_off
from hypertare.knobs.knob import KnobKind, Target
from hypertare.protocol import plan


def _typed(change: Change) -> Entry:
    name = shlex.quote(change.key)
    return commanded(
        "ethtool -k IFACE",
        lambda _, value: f"ethtool -K IFACE {name} {value}",
        note="It was set on both ends of the link.",
    )(change.shown(on_or_off))


class Offloads(KnobKind[dict[str, bool]]):
    name = "offloads"
    place = "link"
    commands = {"*": _typed}

    def told(self, level: dict[str, bool], target: Target) -> Iterator[plan.Knob]:
        for offload, on in level.items():
            yield plan.Offload(interface=target.interface, offload=offload, on=on)


OFFLOADS = Offloads()
