"""Several CPUs of an emulated machine: they work at the same time, and repeat it to the last byte."""

from __future__ import annotations

import multiprocessing
import subprocess
from pathlib import Path

import pytest

from tests.integration.lab import Lab
from tests.integration.test_emulated import own_cache, spin, told

pytestmark = [pytest.mark.guest, pytest.mark.xdist_group("emulated")]

STUDY = """
name = "cpus"
question = "Do four CPUs do four times the work of one?"
machine = "emulated"
[sut]
memory = "192M"
cpus = 4
programs = ["./lock", "./place"]
[workloads.one]
type = "burn"
duration = "300ms"
[workloads.two]
type = "burn"
threads = 2
duration = "300ms"
[workloads.four]
type = "burn"
threads = 4
duration = "300ms"
[workloads.serial]
type = "command"
command = ["lock", "1", "4000", "1000", "0"]
[workloads.pair]
type = "command"
command = ["lock", "2", "4000", "1000", "1000"]
[design]
warmup = 0
min_trials = 2
max_trials = 2
blocks_per_boot = 2
"""
SOURCE = Path(__file__).with_name("lock.c")


def test_they_work_at_the_same_time_but_not_where_one_waits_for_the_other(lab: Lab) -> None:
    """And again beside busy programs: the second run compares every record."""
    lab.env["HYPERTARE_CACHE"] = own_cache(lab, "cache")
    program = lab.work / "lock"
    subprocess.run(["gcc", "-O2", "-pthread", "-o", program, SOURCE], check=True)
    # Commands start in a directory that is there where it holds something.
    (lab.work / "place").mkdir()
    (lab.work / "place" / "text").write_text("text")
    study = lab.study(STUDY)
    first = lab.run("run", study, "--json", "--out", "first")
    assert first.status == 0, first.said
    found = {
        (one["cell"]["workload"], one["response"]): one["estimate"]
        for one in first.json["estimates"]
    }
    rate = {name: found[name, "work_rate"] for name in ("one", "two", "four")}
    assert rate["two"] >= 1.98 * rate["one"], rate
    assert rate["four"] >= 3.95 * rate["one"], rate
    # Never quicker than what is done with the lock held, one after the other.
    assert found["serial", "elapsed"] < found["pair", "elapsed"], found
    neighbours = [multiprocessing.Process(target=spin, daemon=True) for _ in range(2)]
    for neighbour in neighbours:
        neighbour.start()
    try:
        again = lab.run("run", study, "--fresh", "--out", "again")
    finally:
        for neighbour in neighbours:
            neighbour.kill()
    assert again.status == 0, again.said
    assert told(lab.work / "first") == told(lab.work / "again")
