"""What `emulated.quantum` changes: messages, flags, locks, clocks and a TCP stream between two CPUs in
virtual time, for quanta from 0.5 us to 1 ms. Two
trials in one boot of each.

    bench/quantum.py            all of them, as a Markdown table: that of docs/virtual-time.md
    bench/run.py quantum        only the default one, against what it promises

Figures are exact: they do not depend on what else this host does.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path

import common
from common import NotMeasured, Row

from hypertare.base.units import parse_duration
from hypertare.protocol.records import TaskResult
from hypertare.runs.store import Store

SOURCE = common.HERE.parent / "tests" / "integration" / "two_cpus.c"
QUANTA = ("500ns", "1us", "2us", "5us", "10us", "30us", "100us", "1ms")
DEFAULT = "2us"
STUDY = """
name = "quantum"
question = "What does it change how far two CPUs may be apart?"
machine = "emulated"
[sut]
memory = "192M"
cpus = 2
programs = ["./two_cpus", "./place"]
[workloads.see]
type = "command"
command = ["two_cpus"]
[workloads.tcp]
type = "stream"
direction = "receive"
duration = "100ms"
omit = "20ms"
sender_cpus = [0]
receiver_cpus = [1]
[factors]
"emulated.quantum" = [{quanta}]
[design]
warmup = 0
min_trials = 2
max_trials = 2
blocks_per_boot = 2
min_boots = 1
time_limit = "1h"
"""
GOODPUT = "tcp_Mb/s"
JOINED: dict[str, Callable[[list[float]], float]] = {
    "one_way_least_us": min,
    "messages_before_sent": sum,
    "tsc_back": max,
    "lock_500_50_held_twice_us": max,
}
COLUMNS = {
    "round_trip_us": "pipe, there and back, µs",
    "one_way_least_us": "one way, least, µs",
    "messages_before_sent": "arrived before it was sent, of 1,200",
    "spinning_us": "flag, there and back, µs",
    "tsc_back": "clock went back by, ns",
    "lock_500_50_on_2_per_ms": "lock held for 500 of 550, per ms",
    "lock_500_50_on_1_per_ms": "by one CPU alone",
    "lock_500_50_held_twice_us": "held by two at once, µs",
    "lock_500_500_on_2_per_ms": "held for half, per ms",
    "lock_0_0_on_2_per_ms": "for an instant, per ms",
    GOODPUT: "TCP, Mb/s",
}


def main(argv: Sequence[str]) -> list[Row]:
    common.options(__doc__, argv)
    (found,) = measure([DEFAULT]).values()
    early, held = found["messages_before_sent"], found["lock_500_50_held_twice_us"]
    return [
        common.at_most("two CPUs: messages before they were sent", "of 1,200", early, 0),
        common.at_most("two CPUs: a lock that both hold", "us", held, 2.5),
    ]


def measure(quanta: Sequence[str]) -> dict[str, dict[str, float]]:
    """Figures by quantum."""
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        common.run(["gcc", "-O2", "-pthread", "-o", str(place / "two_cpus"), str(SOURCE)])
        # Commands start in a directory that is there where it holds something.
        (place / "place").mkdir()
        (place / "place" / "text").write_text("text")
        study = place / "quantum.toml"
        study.write_text(STUDY.format(quanta=", ".join(f'"{one}"' for one in quanta)))
        argv = [sys.executable, "-m", "hypertare", "run", str(study), "--out", str(place / "run")]
        done = subprocess.run(argv, capture_output=True, text=True)
        if done.returncode:
            raise NotMeasured(done.stderr.strip()[-500:])
        return read(place / "run")


def read(run: Path) -> dict[str, dict[str, float]]:
    """Of both trials: the mean, and of what is least or worst that of both."""
    found: dict[str, dict[str, list[float]]] = {}
    with Store.open(run) as store:
        for trial in store.trials():
            cell = dict(trial.planned.cell)
            figures = found.setdefault(str(cell["emulated.quantum"]), defaultdict(list))
            for record in store.records(trial.planned.id):
                if isinstance(record, TaskResult) and "stdout" in record.text:
                    for name, value in reported(record.text["stdout"]).items():
                        figures[name].append(value)
            if cell["workload"] == "tcp":
                figures[GOODPUT].append(trial.values["goodput"] / 1e6)
    return {
        quantum: {name: JOINED.get(name, statistics.fmean)(of) for name, of in figures.items()}
        for quantum, figures in found.items()
    }


def reported(text: str) -> dict[str, float]:
    pairs = (line.split() for line in text.splitlines())
    return {name: float(value) for name, value in pairs}


def table(found: dict[str, dict[str, float]]) -> str:
    lines = [f"| quantum | {' | '.join(COLUMNS.values())} |", "| ---: |" + " ---: |" * len(COLUMNS)]
    for quantum, figures in sorted(found.items(), key=lambda one: parse_duration(one[0])):
        lines.append(
            f"| {quantum} | " + " | ".join(f"{figures[key]:.4g}" for key in COLUMNS) + " |"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    print(table(measure(QUANTA)))
