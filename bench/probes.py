"""What the probes of polls and drops change of what they look at: goodput with them over without.

- Virtual time: the same study with and without them; its seed is the same, so the figure is exact.
- Wall clock: one guest, trials with and without by turns; the interval is on their ratio.
"""

from __future__ import annotations

import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import common
from common import NotMeasured, Row

from hypertare.design import planner
from hypertare.design.design import Design, Variant, make
from hypertare.design.profiles import DEFAULT_PROFILE
from hypertare.machines.image.build import build
from hypertare.machines.local import LocalMachine
from hypertare.protocol import plan
from hypertare.protocol.records import BenchReady, TrialEnd
from hypertare.study import Study, StudyFile
from hypertare.workloads import responses

TARGET = 0.02
STUDY = """
name = "probe-effect"
question = "Do the probes change what they look at?"
{machine}
[workloads.tcp]
type = "stream"
direction = "receive"
duration = "{duration}"
omit = "200ms"
[design]
min_trials = 2
max_trials = 2
blocks_per_boot = 2
min_boots = 1
"""
VIRTUAL = STUDY.format(
    machine='machine = "emulated"\n[sut]\nmemory = "192M"\nnic = "e1000"', duration="500ms"
)
WALL = STUDY.format(
    machine='[sut]\nplatforms = ["native", "guest"]\nmemory = "192M"\nnic = "e1000"', duration="1s"
)
WITHOUT = "probes=[]"


def main(argv: Sequence[str]) -> list[Row]:
    quick = common.options(__doc__, argv).quick
    return [virtual_row(), wall_row(6 if quick else 30)]


def row(name: str, ratio: float, low: float, high: float, note: str) -> Row:
    outside = low > 1 + TARGET or high < 1 - TARGET
    inside = low >= 1 - TARGET and high <= 1 + TARGET
    return Row(
        f"goodput with the probes over without, {name}",
        "ratio",
        ratio,
        f"within {TARGET:.0%} of 1",
        abs(ratio - 1) <= TARGET,
        by="ratio",
        compared=ratio,
        low=low,
        high=high,
        sure=inside or outside,
        note=note,
    )


def virtual_row() -> Row:
    with tempfile.TemporaryDirectory() as folder:
        study = Path(folder, "study.toml")
        study.write_text(VIRTUAL)
        with_, without = (goodput(study, more) for more in ([], ["--set", WITHOUT]))
    ratio = with_ / without
    return row("virtual time", ratio, ratio, ratio, "exact: the same seed, two machines")


def goodput(study: Path, more: list[str]) -> float:
    with tempfile.TemporaryDirectory() as place:
        argv = [sys.executable, "-m", "hypertare", "run", study, *more]
        argv += ["--seed", "1", "--fresh", "--json", "--out", Path(place, "run")]
        ran = subprocess.run(argv, capture_output=True, text=True, check=False)
    if ran.returncode != 0:
        raise NotMeasured(f"the study was not carried out: {ran.stderr[-300:]}")
    found = [e for e in json.loads(ran.stdout)["estimates"] if e["response"] == "goodput"]
    return float(found[0]["estimate"])


def wall_row(rounds: int) -> Row:
    file = StudyFile(WALL, "probes")
    study = file.study()
    design = make(study, seed=1)
    image = build("debian")
    cpus = tuple(sorted(os.sched_getaffinity(0)))
    on = planner.MachineResources(cpus, "tcg", {("debian", DEFAULT_PROFILE): image}, {})
    with LocalMachine(common.agent()) as machine:
        bench = bench_of(file, study, design, on)
        ready = machine.make_bench(bench, study.sut.boot_limit)[-1]
        if not isinstance(ready, BenchReady) or ready.error:
            raise NotMeasured(f"no guest: {getattr(ready, 'error', ready)}")
        guest = next(v for v in design.plots[0].variants if v.platform == "guest")
        ids = iter(range(10_000))

        def one(cell: Study) -> float:
            return trial(machine, next(ids), cell, guest, design, on)

        without = study.model_copy(update={"probes": ()})
        one(study)
        pairs = common.alternate(rounds, lambda: one(study), lambda: one(without))
    ratios = [ours / theirs for ours, theirs in pairs]
    low, high = common.median_interval(ratios)
    note = f"{len(pairs)} pairs of trials in one guest"
    return row("wall clock", statistics.median(ratios), low or 0.0, high or math.inf, note)


def bench_of(
    file: StudyFile, study: Study, design: Design, on: planner.MachineResources
) -> plan.Bench:
    plot = design.plots[0]
    return planner.make_bench(study, plot, {v.node: file.cell({}) for v in plot.variants}, on)


def trial(
    machine: LocalMachine,
    id: int,
    study: Study,
    guest: Variant,
    design: Design,
    on: planner.MachineResources,
) -> float:
    wanted = planner.make_trial(id, study, "tcp", guest, design.plots[0], on)
    records = machine.run(wanted)
    end = records[-1]
    if not isinstance(end, TrialEnd) or end.error:
        raise NotMeasured(f"a trial failed: {getattr(end, 'error', end)}")
    return responses.measure("stream", "guest", guest.node, records)["goodput"]


if __name__ == "__main__":
    common.run_alone(main)
