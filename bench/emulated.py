"""The emulated machine in virtual time: seconds of this host from starting QEMU to the agent's first
record, and how well several machines share the CPUs.

- Boot: a machine without NICs and with a plan that does nothing; the median over rounds.
- Sharing: as many boots as CPUs, one after the other and then all at once, by turns. Efficiency is
  the first over the second, per CPU. What the CPUs themselves give when all are busy is measured
  beside it, with a loop that has nothing to share: on a host with other work on it, or with two
  threads to a core, they give less.
- CPU seconds of this host, by turns: a boot with the emulator against one with the distribution's QEMU,
  a boot of two CPUs against one of one, and CPUs that all work against as many times one that does.
- A whole study: `napi-budget --quick`, with nothing taken from earlier runs and two machines at once.
"""

from __future__ import annotations

import os
import resource
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
from hypertare.machines.executor import Threads
from hypertare.machines.image import cpio, emulator
from hypertare.machines.image.build import Image, build
from hypertare.machines.image.cache import Cache
from hypertare.machines.image.emulator import Emulator
from hypertare.protocol import plan
from hypertare.protocol.constants import PLAN_FILE

BOOT_TARGET_S = 1.8
EFFICIENCY_TARGET = 0.93
SECOND_CPU_TARGET = 1.3
BUSY_TARGET = 1.15
STUDY = ("run", "napi-budget", "--quick", "--fresh", "--jobs", "2")
STUDY_TARGET_S = 60.0
STUDY_LIMIT_S = 900.0
BUSY_S = (9.0, 1.0)
"""Of virtual time, in which CPUs work."""
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
    rounds = 2 if quick else 6
    return [
        boot_row(boots),
        *sharing_rows(image, rounds),
        *cpu_rows(image, rounds),
        study_row(),
    ]


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
        argv += [f"--records={records}", f"--emulator={emulator.build().program}"]
        argv += NOTHING.pc.options
        began = time.monotonic()
        # It ends when the other end of its input does.
        with subprocess.Popen(argv, stdin=subprocess.PIPE) as process:
            while not records.stat().st_size:
                if process.poll() is not None or time.monotonic() > began + LIMIT_S:
                    raise NotMeasured("the emulated machine reported nothing")
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
            common.agent(),
            {NOTHING.pc.image: image},
            executor=Threads(at_once),
            cache=Cache(Path(place)),
            emulator=emulator.build(),
        )
        with machine:
            began = time.monotonic()
            errors = [output.error for output in machine.run(batches) if output.error]
            taken = time.monotonic() - began
    if errors:
        raise NotMeasured(errors[0])
    return taken


def cpu_rows(image: Image, rounds: int) -> list[Row]:
    ours = emulator.build()

    def boot(cpus: int, by: Emulator | None = ours) -> float:
        return cpu_s(image, working(cpus, 0), by)

    def work(cpus: int) -> float:
        """Of work alone, and for one CPU: boots of several CPUs differ by what they wait for, but those
        whose plans are of the same length do not.
        """
        long, short = (cpu_s(image, working(cpus, one), ours) for one in BUSY_S)
        return (long - short) / cpus

    return [
        common.against_peer(
            "emulated machine: CPU time of a boot, against the distribution's QEMU",
            "s",
            common.alternate(rounds, lambda: boot(1), lambda: boot(1, None)),
            at_most=1.0,
        ),
        common.against_peer(
            "emulated machine: CPU time of a boot of 2 CPUs, against 1",
            "s",
            common.alternate(rounds, lambda: boot(2), lambda: boot(1)),
            at_most=SECOND_CPU_TARGET,
        ),
        *(
            common.against_peer(
                f"emulated machine: CPU time of {cpus} CPUs that work, for each, against 1",
                "s",
                common.alternate(rounds, lambda cpus=cpus: work(cpus), lambda: work(1)),
                at_most=BUSY_TARGET,
            )
            for cpus in (2, 4)
        ),
    ]


def working(cpus: int, seconds: float) -> Batch:
    """A boot whose CPUs then all work for so long."""
    work = plan.Burn(share=1, duration_s=seconds, threads=cpus)
    task = plan.Task(id="burn", node="host", workload=work)
    phase = plan.Phase(name="measure", tasks=(task,), limit_s=60)
    trials = (plan.Trial(id=0, phases=(phase,)),) if seconds else ()
    return replace(NOTHING, pc=replace(NOTHING.pc, cpus=cpus), trials=trials)


def cpu_s(image: Image, batch: Batch, by: Emulator | None) -> float:
    """CPU seconds of this host that a machine takes, from its start to its end."""
    with tempfile.TemporaryDirectory() as place:
        machine = EmulatedMachine(
            common.agent(), {NOTHING.pc.image: image}, cache=Cache(Path(place)), emulator=by
        )
        with machine:
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            (output,) = machine.run([batch])
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if output.error:
        raise NotMeasured(output.error)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def study_row() -> Row:
    with tempfile.TemporaryDirectory() as folder:
        argv = [sys.executable, "-m", "hypertare", *STUDY, "--out", str(Path(folder) / "run")]
        began = time.monotonic()
        try:
            done = subprocess.run(argv, capture_output=True, text=True, timeout=STUDY_LIMIT_S)
        except subprocess.TimeoutExpired:
            raise NotMeasured(f"the study took longer than {STUDY_LIMIT_S:g} s") from None
        seconds = time.monotonic() - began
    if done.returncode:
        raise NotMeasured(f"the study failed: {done.stderr.strip()[-300:]}")
    return common.at_most(" ".join(STUDY[1:]), "s", seconds, STUDY_TARGET_S)


def loops_s(count: int, at_once: int) -> float:
    """Seconds that as many processes take that only count."""
    argv = [sys.executable, "-c", f"for _ in range({LOOPS}): pass"]
    began = time.monotonic()
    with ThreadPoolExecutor(at_once) as pool:
        list(pool.map(lambda _: common.run(argv, LIMIT_S), range(count)))
    return time.monotonic() - began


if __name__ == "__main__":
    common.run_alone(main)
