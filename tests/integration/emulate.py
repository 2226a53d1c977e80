"""One boot of an emulated machine by a plan of one's own, and all that it reports."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hypertare.base.paths import agent_binary
from hypertare.machines.image import cpio, emulator
from hypertare.machines.image.build import Image
from hypertare.protocol.wire_type import WireType


@dataclass(frozen=True)
class Boot:
    """What the machine reported, what it printed, and what the emulator said."""

    records: list[dict[str, Any]]
    console: str
    said: str

    def of(self, kind: str, trial: int | None = None) -> list[dict[str, Any]]:
        """Records of this kind, of one trial."""
        return [r for r in self.records if r["record"] == kind and trial in (None, r.get("trial"))]

    @property
    def course(self) -> list[str]:
        """Registers and TLBs throughout, where `QEMU_ICOUNT_DIGEST` asked for it
        (`emulator/14-tcg-digest.patch`).
        """
        return [line for line in self.said.splitlines() if line.startswith("icount ")]

    def error(self, trial: int) -> str | None:
        """Why a trial failed."""
        (end,) = self.of("trial_end", trial)
        return end["error"]


def boot(
    image: Image,
    steps: Sequence[WireType] | bytes,
    folder: Path,
    *options: str,
    behind: Sequence[Path] = (),
    files: Sequence[cpio.Member] = (),
    environment: Mapping[str, str] | None = None,
    patience_s: float = 400,
) -> Boot:
    """Has a machine carry the steps out, to its end.

    Args:
        image, steps, folder: what it boots, what it does, an empty place for what it reports.
        options: of `hypertare-agent emulate`.
        behind, files: archives and files that are put over those of the image.
        environment: variables of the emulator's beside this process's.
        patience_s: seconds of this host.
    """
    text = steps if isinstance(steps, bytes) else b"".join(map(_line, steps))
    plan, reported, printed, said = (
        folder / name for name in ("plan.cpio", "records", "console", "said")
    )
    plan.write_bytes(cpio.archive([cpio.file("plan.jsonl", text), *files]))
    argv = [
        *(agent_binary(), "emulate", f"--emulator={emulator.build().program}", "--limit=300"),
        *(f"--kernel={image.kernel}", f"--records={reported}", f"--console={printed}"),
        *(f"--initramfs={one}" for one in (image.initramfs, *behind, plan)),
        # As in `Lab.study`.
        "--kernel-arg=rodata=off",
        *options,
    ]
    if image.hypervisor is not None:
        argv.append(f"--hypervisor={image.hypervisor}")
    with said.open("wb") as errors:
        process = subprocess.Popen(
            argv, stdin=subprocess.PIPE, stderr=errors, env={**os.environ, **(environment or {})}
        )
        try:
            # Its input stays open: when that ends, so does the machine.
            assert process.wait(patience_s) == 0, said.read_text()
        finally:
            process.kill()
            process.wait()
    records = [json.loads(line) for line in reported.read_bytes().splitlines()]
    assert records[-1]["record"] == "teardown", records[-3:]
    return Boot(records, printed.read_bytes().decode(errors="replace"), said.read_text())


def _line(step: WireType) -> bytes:
    return step.model_dump_json().encode() + b"\n"
