"""The emulated machine as a user has it: it repeats, whatever else the host does, and it ends."""

from __future__ import annotations

import multiprocessing
import time
from pathlib import Path

import pytest

from hypertare.store import Store
from tests.integration.lab import Lab, Traces, until

pytestmark = [pytest.mark.guest, pytest.mark.xdist_group("emulated")]

TINY = """
name = "tiny"
question = "Does it repeat?"
machine = "emulated"
[sut]
memory = "192M"
nic = "e1000"
[workloads.udp]
type = "stream"
protocol = "udp"
direction = "receive"
rate = "20M"
duration = "100ms"
omit = "20ms"
interval = "50ms"
[design]
min_trials = 2
max_trials = 2
blocks_per_boot = 1
"""

NICS = """
[factors]
"sut.nic" = ["e1000", "e1000e", "vmxnet3", "virtio-net", "pcnet", "rtl8139"]
"""

ENDLESS = """
name = "endless"
question = "Who ends it?"
machine = "emulated"
[sut]
memory = "192M"
[workloads.spin]
type = "burn"
duration = "10m"
[design]
min_trials = 2
max_trials = 2
blocks_per_boot = 2
[emulated]
"""


def told(folder: Path) -> list[str]:
    """Every record of a run, bench and trials, in order, as JSON."""
    with Store.open(folder) as store:
        records = [record for _, bench in store.benches() for record in bench]
        for trial in store.trials():
            records += store.records(trial.planned.id)
        return [record.model_dump_json() for record in records]


def spin() -> None:
    while True:
        pass


def test_a_busy_host_and_other_jobs_change_nothing(lab: Lab) -> None:
    """Byte for byte, and the results of the run before are not run again unless asked for."""
    lab.env["HYPERTARE_CACHE"] = _own_cache(lab)
    study = lab.study(TINY)
    first = lab.run("run", study, "--jobs", "2", "--out", "first")
    assert first.status == 0, first.said
    neighbours = [multiprocessing.Process(target=spin, daemon=True) for _ in range(2)]
    for neighbour in neighbours:
        neighbour.start()
    try:
        again = lab.run("run", study, "--jobs", "1", "--fresh", "--out", "again")
    finally:
        for neighbour in neighbours:
            neighbour.kill()
    assert again.status == 0, again.said
    began = time.monotonic()
    reused = lab.run("run", study, "--out", "reused")
    assert reused.status == 0, reused.said
    assert time.monotonic() - began < first.seconds / 2 + 5
    runs = [told(lab.work / name) for name in ("first", "again", "reused")]
    assert len(runs[0]) > 20
    assert runs[0] == runs[1] == runs[2]


def _own_cache(lab: Lab) -> str:
    """The kernels and images of the shared cache, and no records."""
    shared, own = Path(lab.env["HYPERTARE_CACHE"]), lab.home / "cache"
    own.mkdir()
    for kind in ("names", "packages", "kernels", "images"):
        (own / kind).symlink_to(shared / kind)
    return str(own)


def test_every_nic_model_moves_packets(lab: Lab) -> None:
    text = TINY.replace("blocks_per_boot = 1", "blocks_per_boot = 2") + NICS
    ran = lab.run("run", lab.study(text), "--fresh", "--json")
    assert ran.status == 0, ran.said
    goodput = {
        one["cell"]["sut.nic"]: one for one in ran.json["estimates"] if one["response"] == "goodput"
    }
    assert len(goodput) == 6
    for nic, one in goodput.items():
        assert one["estimate"] == pytest.approx(20e6, rel=0.1), nic
        assert one["unit"] == "b/s (virtual)"
    assert ran.json["clock"] == "virtual" and ran.json["failed"] == []


@pytest.mark.parametrize(
    ("limit", "said"),
    [
        ("limit = '1s'", "before its plan did"),
        ("host_limit = '1s'", "longer than 1 s of this host"),
    ],
)
def test_a_machine_that_never_ends_is_stopped(lab: Lab, limit: str, said: str) -> None:
    before = Traces.now()
    ran = lab.run("run", lab.study(ENDLESS + limit), "--out", "run", "--json")
    assert {failed["reason"] for failed in ran.json["failed"]}, ran.said
    assert all(said in failed["reason"] for failed in ran.json["failed"])
    lab.assert_nothing_left(before)


def test_a_killed_controller_leaves_nothing(lab: Lab) -> None:
    before = Traces.now()
    started = lab.start("run", lab.study(ENDLESS + "shift = 0"), "--out", "run")
    until(lambda: lab.find(r"^qemu-system.* -append "), "the machine to start")
    started.process.kill()
    lab.assert_nothing_left(before)


def test_two_cpus_in_virtual_time_are_refused(lab: Lab) -> None:
    ran = lab.run("run", lab.study(TINY), "--set", "sut.cpus=2")
    assert ran.status == 2
    assert "one count of instructions" in ran.said


def test_jobs_are_for_virtual_time(lab: Lab) -> None:
    ran = lab.run("run", lab.study(TINY), "--set", "clock=wall", "--jobs", "2")
    assert ran.status == 2
    assert "disturb each other" in ran.said


def test_by_the_wall_clock_it_runs_too(lab: Lab) -> None:
    study = lab.study(TINY.replace("blocks_per_boot = 1", "blocks_per_boot = 2"))
    ran = lab.run("run", study, "--set", "clock=wall", "--set", "sut.cpus=2", "--json")
    assert ran.status == 0, ran.said
    (goodput,) = [one for one in ran.json["estimates"] if one["response"] == "goodput"]
    assert goodput["unit"] == "b/s" and goodput["n"] == 2
