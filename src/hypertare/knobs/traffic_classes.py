"""`knobs.traffic_classes`: which packets a driver domain sends first, of those that wait for one rate."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, field_validator

from hypertare.base.closed import Settings
from hypertare.base.quantities import Dscp, Rate, Share
from hypertare.knobs.knob import KnobKind
from hypertare.platforms.commands import Entry, KnobChange
from hypertare.protocol import plan

_LEAST_SHARE = 0.01
"""Of the rate, which a class has in any case: HTB knows none of nothing."""


class TrafficClassSettings(Settings):
    """`rate` is what all guests together may send, in b/s on the wire. With the `scheme` `priority` packets
    with the mark `dscp` go first; with `share` they have that share of it in any case, and each class may
    use what the other leaves; with `none` all packets wait in one class.
    """

    rate: Annotated[Rate, Field(ge=100_000, le=10_000_000_000)]
    scheme: Literal["none", "priority", "share"] = "priority"
    dscp: Dscp = 46
    share: Share = 0.5

    @field_validator("share")
    @classmethod
    def _leaves_some(cls, share: float) -> float:
        if not _LEAST_SHARE <= share <= 1 - _LEAST_SHARE:
            raise ValueError("a class has 1 to 99 % of the rate, and the other class has the rest")
        return share

    def marked(self) -> plan.MarkedClass | None:
        """The class of marked packets; none where there is one class for all."""
        if self.scheme == "none":
            return None
        first = self.scheme == "priority"
        share = 1 - _LEAST_SHARE if first else self.share
        return plan.MarkedClass(dscp=self.dscp, rate_bps=round(self.rate * share), first=first)


def _typed(change: KnobChange) -> Entry:
    """No single command of tc(8) sets it: a discipline, its classes and a filter are made one by one."""
    return Entry(
        look_first=("tc -s class show dev IFACE",),
        note="IFACE is the NIC by which the driver domain sends. tc-htb(8) has the commands: a class 1:1 "
        "with the rate, below it 1:10 for marked packets and 1:20 for all others, of a lower priority "
        "(prio 1) or with a rate of its own each, and a filter, tc-u32(8), that matches the mark in ip "
        "dsfield. `tc qdisc del dev IFACE root` undoes all of it.",
    )


TRAFFIC_CLASSES = KnobKind[TrafficClassSettings](
    name="traffic_classes",
    place="uplink",
    commands={"*": _typed},
    modules=("sch_htb", "cls_u32"),
    for_agent=lambda level, target: [
        plan.TrafficClasses(
            uplink=target.interface, rate_bps=round(level.rate), marked=level.marked()
        )
    ],
)
