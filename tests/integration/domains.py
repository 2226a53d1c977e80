"""Real Xen on the emulated machine, by a plan of one's own: one boot, and all that it tells."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hypertare.base.paths import agent_binary
from hypertare.design.profiles import GUEST_INITRAMFS, GUEST_KERNEL
from hypertare.machines.image import cpio, emulator
from hypertare.machines.image.build import Image
from hypertare.protocol import plan
from hypertare.protocol.seam import Seam

XL = "/usr/lib/xen-4.17/bin/xl"
PATIENCE_S = 400
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


@dataclass(frozen=True)
class Boot:
    """What a machine told, and what it printed."""

    records: list[dict[str, Any]]
    console: str

    def of(self, kind: str, trial: int | None = None) -> list[dict[str, Any]]:
        """Records of this kind, of one trial."""
        return [r for r in self.records if r["record"] == kind and trial in (None, r.get("trial"))]

    def error(self, trial: int) -> str | None:
        """Why a trial failed."""
        (end,) = self.of("trial_end", trial)
        return end["error"]


def boot(
    image: Image,
    steps: Sequence[Seam],
    folder: Path,
    driver_memory: str = "448M",
    files: Sequence[cpio.Member] = (),
) -> Boot:
    """Has a machine carry the steps out, to its end. `files` are put over those of its image."""
    archive, told, printed = (folder / name for name in ("plan.cpio", "records", "console"))
    text = b"".join(step.model_dump_json().encode() + b"\n" for step in steps)
    archive.write_bytes(cpio.archive([cpio.file("plan.jsonl", text), *files]))
    argv = [agent_binary(), "emulate", f"--kernel={image.kernel}", f"--records={told}"]
    argv += [f"--initramfs={image.initramfs}", f"--initramfs={archive}", f"--console={printed}"]
    argv += [f"--hypervisor={image.hypervisor}", f"--driver-memory={driver_memory}"]
    argv += ["--memory=1G", "--limit=300", f"--emulator={emulator.build().program}"]
    process = subprocess.Popen(argv, stdin=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        # Its input stays open: when that ends, so does the machine.
        assert process.wait(PATIENCE_S) == 0, process.stderr and process.stderr.read()
    finally:
        process.kill()
        process.wait()
    records = [json.loads(line) for line in told.read_bytes().splitlines()]
    return Boot(records, printed.read_bytes().decode(errors="replace"))
