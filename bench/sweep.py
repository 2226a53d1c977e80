"""A sweep of `napi-budget` in virtual time, start to report: 4 weights x 10 offered rates, three boots.

Nothing is taken from earlier runs: the cache of records is left out by `--fresh`, which runs every
machine again and compares.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import common
from common import NotMeasured, Row

TARGET_S = 600.0
LIMIT_S = 1800.0
NIC = "e1000"
SETTINGS = (
    f'factors={{ "sut.nic" = ["{NIC}"] }}',
    f'sut.nic="{NIC}"',
    'workloads.tcp.factors={ "knobs.napi_weight" = [60] }',
    'workloads.udp.factors={ "knobs.napi_weight" = [60] }',
    "design.min_trials=3",
    "design.max_trials=3",
    "design.min_boots=3",
    "plots=[]",
    "claims=[]",
)
"""Of the sweeps of the weight a single level stays: no workload of a study can be left out."""

QUICK = (
    'workloads.load.factors={ "knobs.napi_weight" = [1, 60], '
    '"workloads.load.rate" = ["50 % of capacity", "100 % of capacity"] }'
)


def main(argv: Sequence[str]) -> list[Row]:
    quick = common.options(__doc__, argv).quick
    settings = [*SETTINGS, QUICK if quick else buffer_of_one_size()]
    jobs = min(4, len(os.sched_getaffinity(0)))
    with tempfile.TemporaryDirectory() as folder:
        words = [word for setting in settings for word in ("--set", setting)]
        argv = ["run", "napi-budget", "--fresh", "--jobs", str(jobs), *words]
        began = time.monotonic()
        done = subprocess.run(
            [sys.executable, "-m", "hypertare", *argv, "--out", str(Path(folder) / "run")],
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )
        seconds = time.monotonic() - began
    if done.returncode:
        raise NotMeasured(f"the sweep failed: {done.stderr.strip()[-300:]}")
    what = "2 weights x 2 rates" if quick else "4 weights x 10 rates"
    name = f"sweep of {what}, {jobs} jobs"
    return [common.at_most(name, "s", seconds, TARGET_S)]


def buffer_of_one_size() -> str:
    rates = ", ".join(f'"{s} % of capacity"' for s in (10, 20, 30, 40, 50, 60, 80, 100, 120, 150))
    return (
        'workloads.load.factors={ "knobs.napi_weight" = [1, 2, 60, 200], '
        f'"workloads.load.rate" = [{rates}] }}'
    )


if __name__ == "__main__":
    common.run_alone(main)
