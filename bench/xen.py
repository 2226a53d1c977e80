"""Real Xen in virtual time: seconds of this host until its driver domain answers, what each guest adds,
and what memory the PC takes.

The PCs are those of a study with so many guests that do nothing; the median over rounds.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import common
from common import NotMeasured, Row

from hypertare.design.design import make as design_of
from hypertare.design.planner import Chance, MachineResources
from hypertare.design.trials import PlannedTrial
from hypertare.machines import batch as batches
from hypertare.machines.batch import Batch, TrialSlot
from hypertare.machines.image import cpio
from hypertare.machines.image.build import Image, build
from hypertare.protocol.constants import PLAN_FILE
from hypertare.study import StudyFile

READY_TARGET_S, GUEST_TARGET_S = 30.0, 12.0
MEMORY_TARGETS_GB = {4: 2.0, 8: 3.0}
LIMIT_S = 500.0
GUESTS = 4

STUDY = """
name = "boots"
question = "How long do {guests} guests take?"
machine = "emulated"
[sut]
platforms = ["native", "xen"]
guests = {guests}
memory = "128M"
[workloads.nothing]
type = "stream"
duration = 1
"""


@dataclass(frozen=True)
class Boot:
    """Seconds of this host until the driver domain answered, and from there until all guests did;
    the most memory that QEMU had, in bytes.
    """

    ready_s: float
    guests_s: float
    memory: int


def main(argv: Sequence[str]) -> list[Row]:
    quick = common.options(__doc__, argv).quick
    image = build(profile="xen")
    boots = [boot(image, GUESTS, seed) for seed in range(1 if quick else 3)]
    most = boot(image, 8, 1)
    return [
        seconds("driver domain ready", [one.ready_s for one in boots], READY_TARGET_S),
        seconds("each guest", [one.guests_s / GUESTS for one in boots], GUEST_TARGET_S),
        memory(GUESTS, max(one.memory for one in boots)),
        memory(8, most.memory),
    ]


def seconds(what: str, taken: Sequence[float], target: float) -> Row:
    note = f"{min(taken):.1f} to {max(taken):.1f} s in {len(taken)} boots of {GUESTS} guests"
    return common.at_most(f"Xen: {what}", "s", statistics.median(taken), target, note=note)


def memory(guests: int, taken: int) -> Row:
    target = MEMORY_TARGETS_GB[guests]
    return common.at_most(f"Xen: memory of a PC with {guests} guests", "GB", taken / 1e9, target)


def boot(image: Image, guests: int, seed: int) -> Boot:
    """Boots a PC until its guests answer, and ends it."""
    made = bench_of(guests, seed, {("debian", "xen"): image})
    with tempfile.TemporaryDirectory() as place:
        archive, records = Path(place, "plan.cpio"), Path(place, "records")
        archive.write_bytes(cpio.archive([cpio.file(PLAN_FILE.lstrip("/"), made.steps)]))
        records.touch()
        argv = [str(common.agent()), "emulate", f"--kernel={image.kernel}"]
        argv += [f"--hypervisor={image.hypervisor}", f"--initramfs={image.initramfs}"]
        argv += [f"--initramfs={archive}", f"--records={records}", *made.pc.options]
        # It ends when the other end of its input does.
        with subprocess.Popen(argv, stdin=subprocess.PIPE) as process:
            try:
                began = time.monotonic()
                until(process, records, "hello", began)
                ready = time.monotonic()
                until(process, records, "bench", began)
                return Boot(ready - began, time.monotonic() - ready, memory_of(process.pid))
            finally:
                process.kill()


def bench_of(guests: int, seed: int, images: Mapping[tuple[str, str], Image]) -> Batch:
    file = StudyFile(STUDY.format(guests=guests), "bench")
    (plot,) = design_of(file.study(), seed).plots
    variant = next(one for one in plot.variants if one.platform == "xen")
    trial = PlannedTrial(0, 0, 0, "xen", {"workload": "nothing"})
    places = [TrialSlot(variant, trial, {})]
    on = MachineResources((0,), "tcg", images, {}, chance=Chance(seed))
    return batches.make(file, plot, 0, seed, places, on)


def until(process: subprocess.Popen[bytes], records: Path, kind: str, began: float) -> None:
    wanted = f'"record":"{kind}"'.encode()
    while wanted not in records.read_bytes():
        if process.poll() is not None or time.monotonic() > began + LIMIT_S:
            raise NotMeasured(f"the machine reported no {kind}: {records.read_bytes()[-300:]!r}")
        time.sleep(0.05)


def memory_of(process: int) -> int:
    """The most that the largest process under this one has had, in bytes: QEMU's."""
    found = [most_of(process)]
    for name in os.listdir(f"/proc/{process}/task"):
        children = Path(f"/proc/{process}/task/{name}/children").read_text()
        found += [memory_of(int(child)) for child in children.split()]
    return max(found)


def most_of(process: int) -> int:
    for line in Path(f"/proc/{process}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    return 0


if __name__ == "__main__":
    common.run_alone(main)
