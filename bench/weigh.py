"""Whole runs of `hypertare weigh --on native`: against hyperfine by turns, what is added to each run of a
command, the time to the first, whether a long run stays as fast as it began, and reports.

What is added: from one run's end to the next one's, less the command's own time, over all runs of one
`weigh`.
"""

from __future__ import annotations

import shutil
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import closing
from datetime import datetime
from pathlib import Path

import common
from common import NotMeasured, Row

RUNS = 10
ASKED_S = 0.2
ENDS = 200
"""Runs at either end of a long one."""
HYPERTARE = str(Path(sys.executable).with_name("hypertare"))


def main(argv: Sequence[str]) -> list[Row]:
    quick = common.options(__doc__, argv).quick
    with tempfile.TemporaryDirectory() as place:
        bench = Bench(Path(place))
        bench.weigh("once", 2, ["true"])
        return [
            bench.start(3 if quick else 7),
            bench.first(3 if quick else 7),
            bench.against_hyperfine(2 if quick else 6),
            *(
                bench.added(program, 20 if quick else 60)
                for program in (["sleep", "0.2"], ["true"])
            ),
            bench.report("of ten runs", RUNS, 3 if quick else 7, 0.8),
            *bench.long_run(1000 if quick else 10_000),
            *bench.page(500 if quick else 2750),
        ]


class Bench:
    """Its runs are kept in `place`, beside the work directory: that is copied for every run, and empty."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.work = place / "work"
        self.work.mkdir()

    def weigh(self, name: str, runs: int, program: Sequence[str], *options: str) -> float:
        """Seconds that it takes; the run is called so."""
        shutil.rmtree(self.place / name, ignore_errors=True)
        number = ["--min-trials", str(runs), "--max-trials", str(runs), "--time-limit", "1h"]
        place = ["--out", str(self.place / name)]
        argv = [HYPERTARE, "weigh", "--on", "native", *number, *place, *options]
        return self._timed([*argv, "--", *program])

    def start(self, rounds: int) -> Row:
        seconds = [self.weigh("none", RUNS, ["true"], "--dry-run") for _ in range(rounds)]
        name = "weigh: import and start (--dry-run)"
        return common.at_most(name, "s", statistics.median(seconds), 0.35)

    def first(self, rounds: int) -> Row:
        """The first trial is one that warms up, of a program that ends at once."""
        name = "weigh: start until the first `true` has ended"
        return common.at_most(name, "s", statistics.median(map(self._first_s, range(rounds))), 0.35)

    def against_hyperfine(self, rounds: int) -> Row:
        if not shutil.which("hyperfine"):
            raise NotMeasured("hyperfine is not installed")
        program = ["sleep", str(ASKED_S)]
        peer = ["hyperfine", "-N", "--style=none", "-w1", f"-r{RUNS}", " ".join(program)]
        pairs = common.alternate(
            rounds, lambda: self.weigh("ten", RUNS, program), lambda: self._timed(peer)
        )
        name = f"weigh: {RUNS} x `{' '.join(program)}` in all, against hyperfine -w1"
        return common.against_peer(name, "s", pairs, at_most=1.2)

    def added(self, program: Sequence[str], runs: int) -> Row:
        self.weigh("added", runs, program)
        ended, elapsed = self._trials("added")
        whole = (ended[-1] - ended[0]) / (len(ended) - 1)
        added_ms = 1000 * (whole - statistics.mean(elapsed[1:]))
        return common.at_most(f"weigh: added to each `{' '.join(program)}`", "ms", added_ms, 3.0)

    def long_run(self, runs: int) -> list[Row]:
        """The last runs are not slower than the first."""
        self.weigh("long", runs, ["true"])
        ended, _ = self._trials("long")
        first, last = (
            (len(part) - 1) / (part[-1] - part[0]) for part in (ended[:ENDS], ended[-ENDS:])
        )
        name = f"weigh: {runs:,} x `true`"
        return [
            _at_least(f"{name}: the last {ENDS} against the first, trials a second", "", last / first, 0.9),
            _at_least(f"{name}: trials a second, the last {ENDS}", "/s", last, 60.0),
        ]  # fmt: skip

    def report(self, what: str, runs: int, rounds: int, limit_s: float) -> Row:
        self.weigh("reported", runs, ["true"])
        seconds = [self._report("reported") for _ in range(rounds)]
        return common.at_most(f"report --html {what}", "s", statistics.median(seconds), limit_s)

    def page(self, runs: int) -> list[Row]:
        took = self.report(f"of {runs:,} runs", runs, 1, 2.0)
        size = (self.place / "page.html").stat().st_size / 1e6
        return [took, common.at_most(f"its page of {runs:,} runs", "MB", size, 2.5)]

    def _report(self, name: str) -> float:
        return self._timed(
            [HYPERTARE, "report", str(self.place / name), "--html", str(self.place / "page.html")]
        )

    def _first_s(self, _: int) -> float:
        began = time.time()
        self.weigh("first", 2, ["true"])
        with closing(sqlite3.connect(self.place / "first" / "run.sqlite")) as run:
            ((at,),) = run.execute("SELECT min(at) FROM trial").fetchall()
        return datetime.fromisoformat(at).timestamp() - began

    def _trials(self, name: str) -> tuple[list[float], list[float]]:
        """When each measured one was written down, and the command's own time; seconds."""
        query = (
            "SELECT at, value FROM trial JOIN value ON trial = id"
            " WHERE kind = 'measured' AND response = 'elapsed' ORDER BY id"
        )
        with closing(sqlite3.connect(self.place / name / "run.sqlite")) as run:
            found = run.execute(query).fetchall()
        return [datetime.fromisoformat(at).timestamp() for at, _ in found], [
            own for _, own in found
        ]

    def _timed(self, argv: Sequence[str]) -> float:
        began = time.monotonic()
        done = subprocess.run(argv, cwd=self.work, capture_output=True, text=True, timeout=3600)
        if done.returncode:
            raise NotMeasured(f"{' '.join(argv)}: {done.stderr.strip()[-300:]}")
        return time.monotonic() - began


def _at_least(name: str, unit: str, ours: float, limit: float) -> Row:
    return Row(name, unit, ours, f">= {limit:g} {unit}".strip(), ours >= limit)


if __name__ == "__main__":
    common.run_alone(main)
