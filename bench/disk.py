"""The agent's `io` against fio, by turns: random reads of 4 KB past the page cache of a file beside this
checkout, by io_uring. The agent also checks every block that it reads, which fio here does not.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import common
from common import NotMeasured, Row

DEPTHS = (1, 32)
MOST_CPU = 1.0
LEAST_RATE = 1.0


@dataclass(frozen=True)
class Work:
    """Operations a second, and CPU time of one in µs."""

    rate: float
    cpu_us: float


def main(argv: Sequence[str]) -> list[Row]:
    options = common.options(__doc__, argv)
    if not shutil.which("fio"):
        raise NotMeasured("fio is not installed")
    rounds, seconds = (6, 1) if options.quick else (12, 2)
    with tempfile.TemporaryDirectory(dir=common.HERE.parent, prefix=".bench-disk-") as place:
        return [row for depth in DEPTHS for row in judge(Path(place), depth, rounds, seconds)]


def judge(place: Path, depth: int, rounds: int, seconds: int) -> list[Row]:
    rates: common.Pairs = []
    costs: common.Pairs = []
    for number in range(rounds):
        turns: list[Callable[[Path, int, int], Work]] = [ours, fio]
        turns = turns[::-1] if number % 2 else turns
        try:
            found = {turn: turn(place, depth, seconds) for turn in turns}
        except subprocess.SubprocessError as error:
            print(f"  left out: {error}", file=sys.stderr)
            continue
        rates.append((found[ours].rate, found[fio].rate))
        costs.append((found[ours].cpu_us, found[fio].cpu_us))
    if not rates:
        raise NotMeasured("neither the agent nor fio could read: is io_uring allowed here?")
    name = f"io, 4 KB at random, depth {depth}"
    return [
        common.against_peer(f"{name}: reads", "/s", rates, at_least=LEAST_RATE),
        common.against_peer(f"{name}: CPU a read", "us", costs, at_most=MOST_CPU),
    ]


def ours(place: Path, depth: int, seconds: int) -> Work:
    words = ["--depth", str(depth), "--time", str(seconds), "--json"]
    record = json.loads(common.run([str(common.agent()), "io", str(place / "ours"), *words]))
    values = record["values"]
    operations = values["operations"]
    cpu_s = values["user_s"] + values["system_s"]
    return Work(operations / values["elapsed_s"], cpu_s / operations * 1e6)


def fio(place: Path, depth: int, seconds: int) -> Work:
    words = (
        f"--name=r --filename={place / 'fio'} --rw=randread --bs=4k --size=64m --ioengine=io_uring "
        f"--direct=1 --iodepth={depth} --runtime={seconds} --time_based --output-format=json"
    )
    (job,) = json.loads(common.run(["fio", *words.split()]))["jobs"]
    cpu_s = (job["usr_cpu"] + job["sys_cpu"]) / 100 * job["job_runtime"] / 1e3
    return Work(job["read"]["iops"], cpu_s / job["read"]["total_ios"] * 1e6)


if __name__ == "__main__":
    common.run_alone(main)
