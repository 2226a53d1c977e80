"""`knobs.mtu`: bytes of the largest packet."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated

from pydantic import Field

from hypertare.knobs.knob import KnobKind
from hypertare.platforms.commands import Entry, KnobChange, commanded, quoted
from hypertare.protocol import plan

LEAST_MTU = 68
"""RFC 791, section 3.2: what every module of IPv4 forwards without cutting it up."""

MtuBytes = Annotated[int, Field(ge=LEAST_MTU, le=65535)]

MOST_OF_NIC: Mapping[plan.NicModel, int] = {
    "virtio-net": 65535,
    "e1000": 16110,
    "e1000e": 9212,
    "vmxnet3": 9000,
    "rtl8139": 4096,
    "pcnet": 1500,
}
"""The most that Linux 6.1's drivers of QEMU's cards take."""


def _typed(change: KnobChange) -> Entry:
    entry = commanded(
        "ip link show dev IFACE",
        lambda _, value: f"ip link set dev IFACE mtu {shlex.quote(value)}",
        note="Both ends and everything between them need it: the bridge and the TAP device too.",
    )(change)
    xml = f"<interface> <mtu size={quoted(change.new)}/> </interface>"
    return replace(entry, xml=xml if change.system.virtual else None)


MTU = KnobKind[int](
    name="mtu",
    place="link",
    is_of_interface=True,
    commands={"": _typed},
    for_agent=lambda level, target: [plan.Mtu(interface=target.interface, bytes=level)],
)
