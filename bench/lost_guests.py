"""How many guests an emulated KVM host loses: boots of the host with a guest that receives, sends and
sleeps, every second one with shadow page tables.

Guests have the processor as KVM gives it, with the paravirtual end of interrupts, and stop their tick
while they sleep. The distribution's QEMU gives such a guest an interrupt twice now and then, and the
guest then waits for ever (`emulator/02-svm-vmrun.patch`): a few boots on it show that it still can be
seen here. All is in virtual time, so other work on this machine changes no figure but how long it takes:
about an hour of CPU, so it is run alone and is no part of `make bench`.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import common
from common import Row

from hypertare.design.design import make
from hypertare.design.planner import MachineResources
from hypertare.engine.cell_tracker import place_of
from hypertare.machines import batch
from hypertare.machines.batch import Batch
from hypertare.machines.emulated import EmulatedMachine
from hypertare.machines.executor import Threads
from hypertare.machines.image import emulator
from hypertare.machines.image.build import build
from hypertare.machines.image.cache import Cache
from hypertare.machines.image.emulator import Emulator
from hypertare.platforms.guest import KVM_HOST
from hypertare.study import StudyFile

JOBS = 2
STUDY = """
name = "lost-guests"
question = "Does a guest of an emulated KVM host come to its end?"
machine = "emulated"
probes = ["kvm"]
[sut]
platforms = ["native", "guest"]
memory = "128M"
[workloads.udp]
type = "stream"
protocol = "udp"
direction = "both"
rate = "20M"
duration = "100ms"
omit = "20ms"
[workloads.sleep]
type = "sleep"
interval = "50ms"
duration = "4s"
[factors]
"sut.paging" = ["nested", "shadow"]
"""


def main(argv: Sequence[str]) -> list[Row]:
    quick = common.options(__doc__, argv).quick
    boots, of_peer = (6, 2) if quick else (200, 8)
    ours = emulator.build()
    images = {("debian", KVM_HOST.profile): build("debian", KVM_HOST.profile)}
    # The same plans for both.
    on = MachineResources((0,), "tcg", images, {}, emulator=ours)
    lost = lost_of([*batches(on, boots)], on, ours)
    theirs = lost_of([*batches(on, of_peer)], on, None)
    note = f"{lost} of {boots}; with the distribution's QEMU {theirs} of {of_peer}"
    row = common.at_most("emulated KVM host: boots that lost a guest", "", lost, 0, note=note)
    return [row]


def batches(on: MachineResources, count: int) -> Iterator[Batch]:
    """Boots of the host alone with its guest; each has a seed of its own."""
    file = StudyFile(STUDY, "lost-guests.toml")
    design = make(file.study(), 1)
    for seed in range(1, count + 1):
        plot = design.plots[seed % len(design.plots)]
        places = [
            place_of(None, variant, design.trial(plot, variant, cell, 0, 0))
            for cell in design.cells
            for variant in plot.variants
            if variant.kind.pc == KVM_HOST
        ]
        yield batch.make(file, plot, 0, seed, places, on)


def lost_of(boots: Sequence[Batch], on: MachineResources, ours: Emulator | None) -> int:
    """How many boots notified of a trial that failed, or not of all trials."""
    lost = 0
    with tempfile.TemporaryDirectory() as place:
        machine = EmulatedMachine(
            common.agent(),
            on.images,
            executor=Threads(JOBS),
            cache=Cache(Path(place)),
            emulator=ours,
        )
        with machine:
            for number, (boot, output) in enumerate(
                zip(boots, machine.run(boots), strict=True), start=1
            ):
                errors = [
                    reported.error for reported in batch.report(boot, output)[1] if reported.error
                ]
                lost += bool(errors)
                said = errors[0] if errors else "well"
                print(f"  boot {number}: {said}", file=sys.stderr, flush=True)
    return lost


if __name__ == "__main__":
    common.run_alone(main)
