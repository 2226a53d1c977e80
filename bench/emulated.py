"""The emulated machine in virtual time: seconds of this host from starting QEMU to the agent's first
record, and how well several machines share the CPUs.

- Boot: a machine without NICs and with a plan that does nothing; the median over rounds.
- Sharing: as many boots as CPUs, one after the other and then all at once, by turns. Efficiency is
  the first over the second, per CPU. What the CPUs themselves give when all are busy is measured
  beside it, with a loop that has nothing to share: on a host with other work on it, or with two
  threads to a core, they give less.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import common
from common import NotMeasured, Row

from hypertare.machines.batch import Batch, Pc
from hypertare.machines.emulated import EmulatedMachine
from hypertare.machines.image import cpio
from hypertare.machines.image.build import Image, build
from hypertare.machines.image.cache import Cache
from hypertare.protocol import plan
from hypertare.protocol.constants import PLAN_FILE

BOOT_TARGET_S = 6.0
EFFICIENCY_TARGET = 0.85
MOST_JOBS = 4
LIMIT_S = 300.0
LOOPS = 30_000_000

NOTHING = Batch(
    boot=0,
    pc=Pc("virtual", 3, 1, 192 << 20, 1, "debian", 60, LIMIT_S),
    bench=plan.Bench(name="nothing", nodes=(plan.Node(name="host", kind=plan.Host()),)),
    places=(),
    trials=(),
)


def main(argv: Sequence[str]) -> list[Row]:
    image, quick = build("debian", "emulated"), common.options(__doc__, argv).quick
    boots = [first_record_s(image) for _ in range(3 if quick else 7)]
    return [boot_row(boots), *sharing_rows(image, 2 if quick else 6)]


def boot_row(seconds: Sequence[float]) -> Row:
    note = f"{min(seconds):.2f} to {max(seconds):.2f} s in {len(seconds)} boots"
    middle = statistics.median(seconds)
    return common.at_most(
        "emulated machine: boot to first record", "s", middle, BOOT_TARGET_S, note=note
    )


def first_record_s(image: Image) -> float:
    """Boots one machine, and ends it."""
    with tempfile.TemporaryDirectory() as place:
        archive, records = Path(place, "plan.cpio"), Path(place, "records")
        archive.write_bytes(cpio.archive([cpio.file(PLAN_FILE.lstrip("/"), NOTHING.steps)]))
        records.touch()
        argv = [str(common.agent()), "emulate", f"--kernel={image.kernel}"]
        argv += [f"--initramfs={image.initramfs}", f"--initramfs={archive}"]
        argv += [f"--records={records}", *NOTHING.pc.options]
        began = time.monotonic()
        # It ends when the other end of its input does.
        with subprocess.Popen(argv, stdin=subprocess.PIPE) as process:
            while not records.stat().st_size:
                if process.poll() is not None or time.monotonic() > began + LIMIT_S:
                    raise NotMeasured("the emulated machine told nothing")
                time.sleep(0.002)
            taken = time.monotonic() - began
            process.kill()
        return taken


def sharing_rows(image: Image, rounds: int) -> list[Row]:
    jobs = min(MOST_JOBS, len(os.sched_getaffinity(0)))
    if jobs < 2:
        raise NotMeasured("there is one CPU: nothing can be shared")
    machines = [efficiency(lambda many: boots_s(image, jobs, many), jobs) for _ in range(rounds)]
    loops = [efficiency(lambda many: loops_s(jobs, many), jobs) for _ in range(rounds)]
    middle = statistics.median(machines)
    low, high = common.median_interval(machines)
    return [
        Row(
            name=f"emulated machine: {jobs} at once, efficiency per CPU",
            unit="",
            ours=middle,
            target=f">= {EFFICIENCY_TARGET:g}",
            met=middle >= EFFICIENCY_TARGET,
            peer=statistics.median(loops),
            low=low,
            high=high,
            # Machines cannot share better than loops do.
            sure=min(machines if middle >= EFFICIENCY_TARGET else loops) >= EFFICIENCY_TARGET,
            note=f"{min(machines):.2f} to {max(machines):.2f} in {rounds} rounds; the peer is what "
            f"{jobs} loops with nothing to share reach on these CPUs",
        )
    ]


def efficiency(seconds: Callable[[int], float], jobs: int) -> float:
    """Of the same work one after the other and `jobs` at a time."""
    return seconds(1) / (jobs * seconds(jobs))


def boots_s(image: Image, count: int, at_once: int) -> float:
    """Seconds that so many boots take."""
    batches = [replace(NOTHING, pc=replace(NOTHING.pc, seed=seed)) for seed in range(count)]
    with tempfile.TemporaryDirectory() as place:
        machine = EmulatedMachine(
            common.agent(), {NOTHING.pc.image: image}, jobs=at_once, cache=Cache(Path(place))
        )
        with machine:
            began = time.monotonic()
            errors = [output.error for output in machine.run(batches) if output.error]
            taken = time.monotonic() - began
    if errors:
        raise NotMeasured(errors[0])
    return taken


def loops_s(count: int, at_once: int) -> float:
    """Seconds that as many processes take that only count."""
    argv = [sys.executable, "-c", f"for _ in range({LOOPS}): pass"]
    began = time.monotonic()
    with ThreadPoolExecutor(at_once) as pool:
        list(pool.map(lambda _: common.run(argv, LIMIT_S), range(count)))
    return time.monotonic() - began


if __name__ == "__main__":
    common.print_rows(main(sys.argv[1:]))
