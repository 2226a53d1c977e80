"""How far a Dask cluster takes a campaign: simulates many workers with boot times that runs have measured.

    .venv/bin/python bench/cluster_scale.py --run docs/results/cpus --workers 200 --boots 10000

The model: the controller asks for boots and takes in their answers one after the other; a worker carries
out one boot at a time; a worker's first boot finds that files are missing, and the controller sends them to
eight workers at a time, through one scheduler whose throughput they share. Two of a hundred boots run on
two workers. What each step costs is an option, with what `bench/cluster.py` has measured as its default.
"""

from __future__ import annotations

import argparse
import heapq
import json
import math
import random
import sqlite3
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from hypertare.base.errors import InputError
from hypertare.machines.cluster.scheduler import SHARE

AT_ONCE = 8
"""Workers that are sent files at the same time, as `machines/cluster/scheduler.py` has it."""


@dataclass(frozen=True)
class Costs:
    """Seconds the controller takes for each boot, seconds a boot costs a worker beside itself, bytes that a
    new worker is sent, and bytes a second that pass the scheduler.
    """

    controller_s: float = 0.0075
    beside_s: float = 0.013
    files: float = 98e6
    rate: float = 25.6e6


@dataclass(frozen=True)
class Outcome:
    """How long all of it took, how long it takes if only boots cost anything, for how long the controller
    was busy, and when the last worker had its files.
    """

    elapsed_s: float
    ideal_s: float
    controller_s: float
    files_s: float

    @property
    def efficiency(self) -> float:
        return self.ideal_s / self.elapsed_s

    @property
    def limit(self) -> str:
        """What kept it from being linear, most of all."""
        if self.efficiency >= 0.95:
            return "nothing"
        if self.files_s > self.controller_s:
            return "files"
        return "controller" if self.controller_s > 0.5 * self.elapsed_s else "the last boots"


def simulate(times: Sequence[float], workers: int, costs: Costs, *, cold: bool) -> Outcome:
    """Boots of these seconds, longest first, on workers that have no files (`cold`) or all."""
    boots = sorted(times, reverse=True)
    copies = [two for number, one in enumerate(boots) for two in [one] * _copies(number)]
    has_files = _sent(workers, costs) if cold else [0.0] * workers
    free = [(at, worker) for worker, at in enumerate(has_files)]
    heapq.heapify(free)
    asked = ended = 0.0
    for seconds in copies:
        asked += costs.controller_s
        at, worker = heapq.heappop(free)
        until = max(at, asked) + seconds + costs.beside_s
        ended = max(ended, until)
        heapq.heappush(free, (until, worker))
    ideal = max(sum(copies) / workers, max(boots))
    return Outcome(ended, ideal, asked, max(has_files))


def _copies(number: int) -> int:
    """Of a boot: one in fifty is run twice."""
    return 2 if number % round(1 / SHARE) == 0 else 1


def _sent(workers: int, costs: Costs) -> list[float]:
    """When each has its files: the scheduler's throughput is shared, so groups end one after the other."""
    each_s = costs.files / costs.rate
    return [each_s * min(workers, AT_ONCE * (1 + worker // AT_ONCE)) for worker in range(workers)]


def boot_time(run: Path, jobs: int) -> float:
    """Seconds of its host that a boot of a run took in the mean, with so many at once where its command
    line does not say how many.

    Raises:
        InputError: it is no run that came to its end.
    """
    try:
        with sqlite3.connect(f"file:{run / 'run.sqlite'}?mode=ro", uri=True) as file:
            (boots,) = file.execute("SELECT count(DISTINCT boot) FROM trial").fetchone()
            marks = dict(file.execute("SELECT what, at FROM milestone").fetchall())
            (argv,) = file.execute("SELECT value FROM meta WHERE key = 'argv'").fetchone()
        words = json.loads(argv)
        at_once = int(words[words.index("--jobs") + 1]) if "--jobs" in words else jobs
        began, ended = (datetime.fromisoformat(marks[one]) for one in ("started", "completed"))
        return float((ended - began).total_seconds() * at_once / boots)
    except (sqlite3.Error, KeyError, TypeError, ValueError, ZeroDivisionError) as error:
        raise InputError(
            f"{run} is no run that came to its end at once ({error}).", "Name another with --run."
        ) from None


def main(argv: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--run", type=Path, action="append", help="a run whose boots take as long")
    parser.add_argument("--jobs", type=int, default=2, help="boots at once in runs that do not say")
    parser.add_argument(
        "--seconds", type=float, help="boots of so many seconds, in place of a run's"
    )
    parser.add_argument("--workers", type=int, default=200)
    parser.add_argument("--boots", type=int, default=10_000)
    defaults = Costs()
    parser.add_argument("--controller-ms", type=float, default=1e3 * defaults.controller_s)
    parser.add_argument("--beside-ms", type=float, default=1e3 * defaults.beside_s)
    parser.add_argument("--files-mb", type=float, default=defaults.files / 1e6)
    parser.add_argument("--rate-mb", type=float, default=defaults.rate / 1e6)
    chosen = parser.parse_args(argv)
    known = [chosen.seconds] if chosen.seconds else []
    known = known or [boot_time(run, chosen.jobs) for run in chosen.run or ()]
    if not known:
        parser.error("name a run (--run) or how long boots take (--seconds)")
    costs = Costs(
        chosen.controller_ms / 1e3,
        chosen.beside_ms / 1e3,
        chosen.files_mb * 1e6,
        chosen.rate_mb * 1e6,
    )
    chance = random.Random(1)
    times = [chance.choice(known) for _ in range(chosen.boots)]
    mean = math.fsum(times) / len(times)
    print(f"{chosen.boots} boots of {mean:.1f} s ({min(times):.1f} to {max(times):.1f} s)")
    print("workers  files   elapsed  ideal  of linear  limit")
    for workers in sorted({1, 10, 50, 100, chosen.workers, 2 * chosen.workers}):
        for cold in (True, False):
            found = simulate(times, workers, costs if cold else replace(costs, files=0), cold=cold)
            print(
                f"{workers:7}  {'new' if cold else 'there':5} {found.elapsed_s:8.0f} s "
                f"{found.ideal_s:6.0f} s {found.efficiency:6.2f}     {found.limit}"
            )


if __name__ == "__main__":
    main(sys.argv[1:])
