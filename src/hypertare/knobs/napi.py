"""How much a poll and a softirq take: NAPI weights, the budget, the backlog's weight."""

from __future__ import annotations

import shlex
from dataclasses import replace
from typing import Annotated

from pydantic import Field

from hypertare.base.closed import Settings
from hypertare.knobs.knob import Count, KnobKind
from hypertare.platforms.commands import Entry, KnobChange, commanded, into, slug, sysctls
from hypertare.protocol import plan
from hypertare.protocol.constants import NAPI_MODULE, NAPI_WEIGHT_FILE

PollWeight = Annotated[int, Field(ge=1, le=1024)]


def _typed(change: KnobChange) -> Entry:
    if change.system.nic == "virtio-net":
        # virtio_net reads its parameter when it is loaded, often already from the initramfs.
        file = f"/etc/modprobe.d/{slug(change.path)}.conf"
        return Entry(
            None,
            ("cat /sys/module/virtio_net/parameters/napi_weight",),
            (into(file, f"options virtio_net napi_weight={change.new}"), "update-initramfs -u"),
            (),
            (f"rm -f {file}", "update-initramfs -u"),
            note="From the next boot; it stays. update-initramfs is Debian's (others: dracut -f). At once, "
            "and for any driver, with hypertare's kernel module: kernel/README.md.",
        )
    entry = commanded(
        f"cat {NAPI_WEIGHT_FILE}",
        lambda _, value: f"echo {shlex.quote(f'IFACE {value}')} > {NAPI_WEIGHT_FILE}",
        note="The driver has no such parameter: load hypertare's kernel module first "
        "(kernel/README.md says how to build it). Nearly all drivers choose 64.",
    )(change)
    return replace(entry, undo=(*entry.undo, f"rmmod {NAPI_MODULE}"))


NAPI_WEIGHT = KnobKind[int](
    name="napi_weight",
    place="interface",
    is_of_interface=True,
    commands={"": _typed},
    for_own_machines=True,
    for_agent=lambda level, target: [plan.NapiWeight(interface=target.interface, weight=level)],
)


class NapiBudgetSettings(Settings):
    """What one softirq may take; without `microseconds` the kernel's limit of time stays."""

    packets: Annotated[int, Field(ge=1, le=(1 << 31) - 1)]
    microseconds: Count | None = None


NAPI_BUDGET = KnobKind[NapiBudgetSettings](
    name="napi_budget",
    place="interface",
    commands={
        "packets": sysctls(("net.core.netdev_budget",)),
        "microseconds": sysctls(("net.core.netdev_budget_usecs",)),
    },
    for_own_machines=True,
    for_agent=lambda level, _: [
        plan.NapiBudget(packets=level.packets, microseconds=level.microseconds)
    ],
)


BacklogWeight = Annotated[int, Field(ge=1, le=(1 << 31) - 1)]


DEV_WEIGHT = KnobKind[int](
    name="dev_weight",
    place="interface",
    commands={"": sysctls(("net.core.dev_weight",))},
    for_own_machines=True,
    for_agent=lambda level, _: [plan.DevWeight(packets=level)],
)
