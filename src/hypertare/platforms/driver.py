"""`driver`: Xen's driver domain itself. Its packets take no guest's way: they are the bridge's own."""

from __future__ import annotations

from dataclasses import replace

from hypertare.platforms.platform import Platform
from hypertare.platforms.xen import XEN_HOST
from hypertare.protocol import plan

DRIVER_HOST = replace(XEN_HOST, name="xen0", guest_boot_s=0.0)
"""The PC of guests of Xen, with room for them, on which none boots: even idle ones take CPU time."""


DRIVER = Platform(
    name="driver",
    is_host=True,
    hypervisor_settings=frozenset({"scheduler", "driver_memory", "driver_cpus", "pinning"}),
    under_hypervisor=True,
    is_seen_from_outside=False,
    sees_host_files=False,
    pc=DRIVER_HOST,
    settings_typed_at="host",
    kernel_typed_at="host",
    caveat_of_baseline=(
        "driver is this host's driver domain, and native is the same one: what they differ by is noise "
        "(machine = 'emulated' has a baseline without Xen)"
    ),
    node=lambda _: plan.Host(),
)
