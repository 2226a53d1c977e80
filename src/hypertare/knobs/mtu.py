"""`knobs.mtu`: bytes of the largest packet."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import replace
from typing import Annotated

from pydantic import Field

from hypertare.knobs.commands import Change, Entry, commanded, quoted
from hypertare.knobs.knob import KnobKind, Target
from hypertare.protocol import plan

MtuBytes = Annotated[int, Field(ge=576, le=65535)]


def _typed(change: Change) -> Entry:
    entry = commanded(
        "ip link show dev IFACE",
        lambda _, value: f"ip link set dev IFACE mtu {shlex.quote(value)}",
        note="Both ends and everything between them need it: the bridge and the TAP device too.",
    )(change)
    xml = f"<interface> <mtu size={quoted(change.new)}/> </interface>"
    return replace(entry, xml=xml if change.system.virtual else None)


class Mtu(KnobKind[int]):
    name = "mtu"
    place = "link"
    commands = {"": _typed}

    def told(self, level: int, target: Target) -> Iterator[plan.Knob]:
        yield plan.Mtu(interface=target.interface, bytes=level)


MTU = Mtu()
