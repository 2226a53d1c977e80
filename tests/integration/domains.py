"""Real Xen on the emulated machine, by a plan of one's own."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hypertare.design.profiles import GUEST_INITRAMFS, GUEST_KERNEL
from hypertare.machines.image import cpio
from hypertare.machines.image.build import Image
from hypertare.protocol import plan
from hypertare.protocol.wire_type import WireType
from tests.integration import emulate
from tests.integration.emulate import Boot

XL = "/usr/lib/xen-4.17/bin/xl"
_ARGUMENTS = (
    "quiet",
    "rodata=off",
    "cryptomgr.notests",
    "panic=-1",
    "random.trust_cpu=off",
    # So that one can be made to crash from the driver domain.
    "sysrq_always_enabled",
    "hypertare.modules=xen_netfront",
)


def guest(number: int, link: str = "br0", **changes: Any) -> plan.Node:
    """A guest on this link, with changes of what it boots from and with."""
    kind = plan.Domain(
        cpus=1,
        memory=128 << 20,
        weight=128 * number,
        kernel=Path("/") / GUEST_KERNEL,
        initramfs=(Path("/") / GUEST_INITRAMFS,),
        kernel_args=_ARGUMENTS,
        boot_limit_s=120,
    )
    interface = plan.Interface(
        name="eth0",
        link=link,
        address=f"10.77.0.{number + 2}/24",
        mac=f"52:54:00:00:00:{number + 2:02x}",
    )
    return plan.Node(
        name=f"guest{number}", kind=kind.model_copy(update=changes), interfaces=(interface,)
    )


def bench(*guests: plan.Node, mtu: int = 1500, **more: Any) -> plan.BenchStep:
    """Guests on a bridge with the driver domain."""
    own = plan.Interface(name="br0", link="br0", address="10.77.0.1/24")
    host = plan.Node(name="host", kind=plan.Host(), interfaces=(own,))
    link = plan.Link(name="br0", mtu=mtu)
    return plan.BenchStep(
        bench=plan.Bench(name="xen", nodes=(host, *guests), links=(link,), **more)
    )


def boot(
    image: Image,
    steps: Sequence[WireType],
    folder: Path,
    driver_memory: str = "448M",
    files: Sequence[cpio.Member] = (),
) -> Boot:
    """One boot of Xen that carries the steps out. `files` are put over those of its image."""
    memory = (f"--driver-memory={driver_memory}", "--memory=1G")
    return emulate.boot(image, steps, folder, *memory, files=files)
