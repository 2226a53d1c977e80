"""A busy program beside a run is named in its report; what the run itself does is not."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from hypertare.runs.store import Store
from tests.integration.lab import Lab

pytestmark = pytest.mark.runs

LIMITS = ("--warmup", "0", "--min-trials", "4", "--max-trials", "4")
WORK = ("sh", "-c", "i=0; while [ $i -lt 150000 ]; do i=$((i+1)); done")
BUSY = "busy-neighbour"


@contextmanager
def busy_beside(place: Path) -> Iterator[None]:
    """So many programs of that name that they are among the busiest, whatever else runs here."""
    program = place / BUSY
    program.write_text("#!/bin/sh\nwhile :; do :; done\n")
    program.chmod(0o755)
    started = [subprocess.Popen([program]) for _ in range(4 * (os.cpu_count() or 1))]
    try:
        yield
    finally:
        for process in started:
            process.kill()
            process.wait()


def test_a_busy_program_is_named(lab: Lab) -> None:
    with busy_beside(lab.work):
        ran = lab.run("weigh", "--on", "native", *LIMITS, "--out", lab.home / "run", "--", *WORK)
    assert ran.status == 0, ran
    assert re.search(f"(another program|so did|and) ?,? {BUSY},", ran.said), ran.said
    assert ran.said.count(BUSY) == 1, "reported once"
    summary = json.loads((lab.home / "run" / "summary.json").read_text())
    found = next(one for one in summary["disturbances"] if one["program"] == BUSY)
    assert found["what"] == "program" and found["cpus"] > 0.1
    assert 0 < found["blocks"] <= found["of"] == 4


def test_the_run_itself_is_nobody_else(lab: Lab) -> None:
    """The command is the busiest of all, and is known by a name that nobody else has."""
    own = lab.work / "own-work"
    own.write_text("#!/bin/sh\ni=0; while [ $i -lt 400000 ]; do i=$((i+1)); done\n")
    own.chmod(0o755)
    run = lab.home / "run"
    ran = lab.run("weigh", "--on", "native,container", *LIMITS, "--out", run, "--", "./own-work")
    assert ran.status == 0, ran
    with Store.open(run) as store:
        assert own.name not in {other.name for other in store.other_programs()}
        readings = store.readings("conditions")
    assert len(readings) == 8
    for (reading,) in readings.values():
        assert reading.unavailable is None
        assert 0 <= reading.values["others_s"] < reading.elapsed_s * (os.cpu_count() or 1)
