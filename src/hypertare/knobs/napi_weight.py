"""`knobs.napi_weight`: packets that a NIC's driver takes in one poll at most."""

from __future__ import annotations

import shlex
from dataclasses import replace
from typing import Annotated

from pydantic import Field

from hypertare.knobs.knob import KnobKind
from hypertare.platforms.commands import Entry, KnobChange, commanded, into, slug
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
