"""Real Xen in virtual time: a study of several guests beside the same machine without Xen."""

from __future__ import annotations

from pathlib import Path

import pytest

from hypertare.machines.image.build import build
from hypertare.machines.image.vmm import quick_to_boot
from tests.integration.lab import Lab, rows, summary, trials

pytestmark = pytest.mark.guest


def test_the_distribution_s_kernel_is_one_that_boots_quickly() -> None:
    kernel = build(profile="emulated").kernel.read_bytes()
    assert quick_to_boot(kernel) != kernel


STUDY = """
name = "two-guests"
question = "What do two guests of Xen lose, and do they get what their weights say?"
machine = "emulated"
[sut]
platforms = ["native", "xen"]
guests = 2
memory = "112M"
nic = "e1000"
[bench]
driver = "route"
[workloads.burn]
type = "burn"
duration = 3
[workloads.transmit]
type = "stream"
duration = 0.5
omit = 0.05
[workloads.beside]
type = "ping"
duration = 0.05
interval = "5ms"
neighbours = { share = "90 %" }
[knobs]
driver_weight = 512
guest_weights = [256, 512]
[factors]
"sut.scheduler" = ["credit", "credit2"]
[design]
min_trials = 2
max_trials = 2
blocks_per_boot = 2
min_boots = 1
"""


@pytest.fixture(scope="module")
def run(shared: Lab) -> Path:
    ran = shared.run("run", shared.study(STUDY), "--out", "run", patience_s=400)
    assert ran.status == 0, ran.err
    return shared.work / "run"


@pytest.mark.timeout(900)
def test_two_guests_are_weighed_beside_native(run: Path) -> None:
    done = trials(run)
    assert {row[5] for row in done} == {"ok"} and {row[2] for row in done} == {"native", "xen"}
    found = summary(run)
    assert {state["node"] for state in found["platforms"]} == {"host", "xen1-1", "xen1-2"}
    states = [state for state in found["platforms"] if state["platform"] == "xen"]
    seen = {(state["joined"], state["scheduler"]) for state in states}
    assert seen == {("route", "credit"), ("route", "credit2")}
    (native,) = [state for state in found["platforms"] if state["platform"] == "native"]
    assert native["vmm"] is None
    # Each cell has its own baseline, which does not know of the scheduler.
    for workload, response in (("transmit", "goodput"), ("beside", "rtt_p50")):
        costs = {
            one["cell"]["sut.scheduler"]: (one["n"], one["cost"] is not None)
            for one in found["estimates"]
            if (one["cell"]["workload"], one["response"], one["platform"])
            == (workload, response, "xen")
        }
        assert costs == {"credit": (2, True), "credit2": (2, True)}, (workload, costs)


def test_a_guest_gets_the_cpu_that_its_weight_says(run: Path) -> None:
    query = """
        SELECT trial, cell ->> '$."sut.scheduler"', guest, response, guest_value.value
        FROM trial JOIN guest_value ON guest_value.trial = trial.id
        WHERE platform = 'xen' AND cell ->> '$.workload' = 'burn'
    """
    values: dict[tuple[int, str], dict[tuple[str, int], float]] = {}
    for trial, scheduler, number, response, value in rows(run, query):
        values.setdefault((trial, scheduler), {})[response, number] = value
    assert sorted(scheduler for _, scheduler in values) == ["credit"] * 2 + ["credit2"] * 2
    for one in values.values():
        # Both want all of the one CPU, and the second weighs twice as much. Each is alone for some 0.1 s,
        # until the other has begun and after it has ended.
        cpu = one["outside_cpu", 2] / one["outside_cpu", 1]
        assert cpu == pytest.approx(2, rel=0.1), values
        due = [one["entitlement", number] for number in (1, 2)]
        assert due == pytest.approx([1, 1], rel=0.1), values


WALL = """
name = "wall"
question = "Does Xen run by the wall clock?"
machine = "emulated"
clock = "wall"
[sut]
platforms = ["native", "xen"]
guests = 2
memory = "112M"
nic = "e1000"
[workloads.transmit]
type = "stream"
duration = 1
[design]
min_trials = 2
max_trials = 2
blocks_per_boot = 2
min_boots = 1
"""


@pytest.mark.release
@pytest.mark.timeout(900)
def test_by_the_wall_clock_too(lab: Lab) -> None:
    ran = lab.run("run", lab.study(WALL), "--out", lab.home / "run", patience_s=400)
    assert ran.status == 0, ran.err
    done = trials(lab.home / "run")
    assert [row[5] for row in done] == ["ok"] * 4 and {row[2] for row in done} == {"native", "xen"}
    found = summary(lab.home / "run")
    assert found["clock"] == "wall"
    goodput = {one["platform"]: one for one in found["estimates"] if one["response"] == "goodput"}
    assert goodput["xen"]["n"] == 2 and goodput["xen"]["estimate"] > 0
    assert "virtual" not in goodput["xen"]["unit"]
