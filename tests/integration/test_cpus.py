"""Several CPUs of an emulated machine: they work at the same time, and repeat it to the last byte."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from hypertare.machines.image.build import Image, build
from hypertare.protocol import plan
from hypertare.protocol.records import TaskResult
from hypertare.runs.store import Store
from hypertare.walk import processors
from tests.integration import emulate
from tests.integration.lab import NEW_PYTHON, Lab, own_cache, reported, summary
from tests.integration.stops import KICKED, KICKED_OFTEN, busy, stopping

pytestmark = [pytest.mark.guest, pytest.mark.xdist_group("emulated")]

STUDY = """
name = "cpus"
question = "Do four CPUs do four times the work of one?"
machine = "emulated"
[sut]
memory = "192M"
cpus = 4
programs = ["./lock", "./two_cpus"]
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
[workloads.half]
type = "command"
command = ["lock", "2", "4000", "1000", "500"]
[workloads.see]
type = "command"
command = ["two_cpus"]
[design]
warmup = 0
min_trials = 2
max_trials = 2
blocks_per_boot = 2
"""
PROGRAMS = ("lock", "two_cpus")


def test_they_work_at_the_same_time_but_not_where_one_waits_for_the_other(lab: Lab) -> None:
    """And again beside busy programs and interrupted at random: that run compares every record."""
    lab.env["HYPERTARE_CACHE"] = own_cache(lab, "cache")
    for name in PROGRAMS:
        source = Path(__file__).with_name(f"{name}.c")
        subprocess.run(["gcc", "-O2", "-pthread", "-o", lab.work / name, source], check=True)
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
    assert found["serial", "elapsed"] < min(found["pair", "elapsed"], found["half", "elapsed"])
    for figures in seen(lab.work / "first"):
        assert figures["messages_before_sent"] == 0 and figures["one_way_least_us"] > 0, figures
        # A lock that is held half of the time gives no more than a serial one can, nor is it held twice.
        assert figures["lock_500_500_on_2_per_ms"] <= 2 * figures["lock_500_500_on_1_per_ms"]
        assert figures["lock_500_500_held_twice_us"] <= 2.5, figures
    with busy():
        again = lab.run("run", study, "--fresh", "--out", "again", wrap=NEW_PYTHON, **KICKED)
    assert again.status == 0, again.said
    assert reported(lab.work / "first") == reported(lab.work / "again")


def seen(run: Path) -> list[dict[str, float]]:
    """What `two_cpus` reported in each trial."""
    with Store.open(run) as store:
        records = [one for trial in store.trials() for one in store.records(trial.planned.id)]
    reported = [one.text["stdout"] for one in records if isinstance(one, TaskResult) and one.text]
    lines = [[line.split() for line in text.splitlines()] for text in reported]
    found = [{name: float(value) for name, value in pairs} for pairs in lines if pairs]
    assert found
    return found


def test_the_whole_course_is_the_same_however_often_it_is_interrupted(tmp_path: Path) -> None:
    """Not only what is reported: where each CPU was after each round, and what was in its TLB. What differs
    there is seen in records of one boot in many.
    """
    image = build(profile="emulated")
    first = course(image, tmp_path / "first", seed=1)
    with busy():
        again = course(image, tmp_path / "again", seed=1, **KICKED_OFTEN)
    # After its last word a machine is stopped by another thread, at no time of its own.
    assert len(first) > 20 and first[:-1] == again[:-1]
    other = course(image, tmp_path / "other", seed=2)
    assert not {*first} & {*other[10:]}


def course(image: Image, folder: Path, seed: int, **env: str) -> list[str]:
    """What the emulator says of a boot of four CPUs in which all work and page walks take time
    (`emulator/14-tcg-digest.patch`)."""
    folder.mkdir()
    burn = plan.Task(id="burn", node="host", workload=plan.Burn(share=1, duration_s=0.2, threads=4))
    node = plan.Node(name="host", kind=plan.Host(), cpus=(0, 1, 2, 3))
    steps = (
        plan.HelloStep(),
        plan.BenchStep(bench=plan.Bench(name="course", nodes=(node,))),
        plan.TrialStep(
            trial=plan.Trial(id=1, phases=(plan.Phase(name="measure", tasks=(burn,), limit_s=9),))
        ),
        plan.TeardownStep(),
    )
    reported = emulate.boot(
        image,
        steps,
        folder,
        *("--cpus=4", f"--seed={seed}", "--memory=192M"),
        f"--walks={processors.find('zen4').hardware}",
        environment={**env, "QEMU_ICOUNT_DIGEST": "1"},
    )
    return reported.course


GUESTS = """
name = "guests"
question = "Do two CPUs do twice the work of one in guests, too?"
machine = "emulated"
[sut]
platforms = ["native", "guest", "xen"]
memory = "128M"
cpus = 2
boot_limit = "5m"
[workloads.one]
type = "burn"
duration = "200ms"
[workloads.two]
type = "burn"
threads = 2
duration = "200ms"
[workloads.tcp]
type = "stream"
direction = "both"
duration = "50ms"
omit = "10ms"
interval = "10ms"
[design]
warmup = 0
min_trials = 2
max_trials = 2
blocks_per_boot = 2
min_boots = 1
time_limit = "1h"
"""


@pytest.mark.timeout(900)
def test_guests_have_several_cpus(lab: Lab) -> None:
    """KVM's and Xen's."""
    first = lab.run("run", lab.study(GUESTS), "--json", "--out", "first")
    assert first.status == 0 and first.json["failed"] == [], first.said
    means = {
        (one["cell"]["workload"], one["platform"]): one["estimate"]
        for one in first.json["estimates"]
        if one["response"] == "work_rate"
    }
    # Beside them the agents work for some 15 ms of each trial of 200.
    for platform in ("native", "guest", "xen"):
        assert means["two", platform] >= 1.85 * means["one", platform], means
    states = {one["platform"]: one for one in summary(lab.work / "first")["platforms"]}
    assert {one["cpus"] for one in states.values()} == {2}
    both = {"cpus": 2, "on": []}
    assert (states["xen"]["placed"], states["xen"]["driver"]) == (both, both)


@pytest.mark.release
@pytest.mark.timeout(900)
def test_guests_of_several_cpus_repeat_whatever_the_host_does(lab: Lab) -> None:
    """While their machines are stopped and continued, and interrupted at random."""
    lab.env["HYPERTARE_CACHE"] = own_cache(lab, "cache")
    study = lab.study(GUESTS)
    first = lab.run("run", study, "--out", "first")
    assert first.status == 0, first.said
    with stopping(lab) as often:
        # Of different classes of PCs two at a time.
        asked = ("--fresh", "--jobs", "2", "--out", "again")
        again = lab.run("run", study, *asked, wrap=NEW_PYTHON, **KICKED)
    assert again.status == 0, again.said
    assert often[0] > 100 and reported(lab.work / "first") == reported(lab.work / "again")
