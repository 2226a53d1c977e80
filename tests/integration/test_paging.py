"""Real KVM in virtual time: guests with either page tables, what translating addresses costs them, and what
probes count of their memory, their exits and their host's polling.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from hypertare.design.trials import FinishedTrial
from hypertare.protocol.records import KnobOutcome, NodeReady, ProbeValues
from hypertare.runs.store import Store
from tests.integration.lab import Lab

pytestmark = [pytest.mark.guest, pytest.mark.xdist_group("emulated")]

FORKS = 10
STUDY = f"""
name = "memory"
question = "Who counts what?"
machine = "emulated"
probes = ["kvm", "kvm_exits", "memory", "vmm_memory", "hardware"]
[sut]
platforms = ["native", "guest"]
memory = "192M"
[workloads.spin]
type = "burn"
duration = "20ms"
[workloads.program]
type = "command"
command = ["hypertare-agent", "burn", "--time", "0.02"]
[workloads.wake]
type = "sleep"
interval = "200us"
duration = "50ms"
[workloads.wake.factors]
"knobs.halt_poll_ns" = [0, 1000000]
[workloads.fork]
type = "fork"
count = {FORKS}
touch = "256K"
[workloads.touch]
type = "touch"
memory = "8M"
count = 1000000
[workloads.touch.factors]
"knobs.thp" = ["never", "always"]
[factors]
"sut.paging" = ["nested", "shadow"]
[design]
min_trials = 2
max_trials = 2
blocks_per_boot = 2
min_boots = 1
warmup = 0
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    lab = Lab(tmp_path_factory.mktemp("memory"))
    ran = lab.run("run", lab.study(STUDY), "--fresh", "--out", "run", "--json", patience_s=600)
    assert ran.status == 0, ran.said
    assert ran.json["failed"] == []
    return lab.work / "run"


def trials(run: Path, platform: str, **cell: str) -> list[FinishedTrial]:
    with Store.open(run) as store:
        found = [one for one in store.trials() if one.planned.platform == platform]
    wanted = {path.replace("__", "."): level for path, level in cell.items()}
    chosen = [one for one in found if wanted.items() <= one.planned.cell.items()]
    assert chosen, wanted
    return chosen


def test_guests_have_the_page_tables_that_were_asked_for(run: Path) -> None:
    with Store.open(run) as store:
        records = [record for _, bench in store.benches() for record in bench]
        outside = [
            (trial.planned.cell["sut.paging"], one.values["cpu_s"], one.values["guest_s"])
            for trial in store.trials()
            if trial.planned.workload in ("spin", "program")
            for one in store.records(trial.planned.id)
            if isinstance(one, ProbeValues) and one.probe == "outside"
        ]
    nodes = [one for one in records if isinstance(one, NodeReady) and one.accelerator]
    assert {one.paging for one in nodes} == {"nested", "shadow"}
    assert all(one.accelerator == "kvm" for one in nodes)
    assert {paging for paging, _, _ in outside} == {"nested", "shadow"}
    # All of the work is in what the VMM used. What of it was the guest's the kernel counts by ticks of
    # 10 ms: of a short trial all of them may meet the host, and of no run.
    assert all(cpu > 0.02 and 0 <= guest <= cpu + 0.02 for _, cpu, guest in outside)
    assert sum(guest for _, _, guest in outside) >= 0.01


def test_kvm_polls_for_a_guest_that_sleeps_as_long_as_it_is_reported(run: Path) -> None:
    guests = trials(run, "guest", workload="wake")
    with Store.open(run) as store:
        reported = {one.planned.id: store.records(one.planned.id) for one in guests}
    assert len(guests) == 8
    for trial in guests:
        level, records = trial.planned.cell["knobs.halt_poll_ns"], reported[trial.planned.id]
        applied, put_back = (one for one in records if isinstance(one, KnobOutcome))
        assert (applied.node, applied.after) == ("host", str(level))
        assert put_back.after == applied.before != str(level)
        (kvm,) = (one for one in records if isinstance(one, ProbeValues) and one.probe == "kvm")
        polls = kvm.values["halt_attempted_poll"]
        assert polls == 0 if level == 0 else polls > 20, kvm.values


def test_shadow_paging_exits_for_each_page_and_nested_paging_for_none(run: Path) -> None:
    nested, shadow = (
        trials(run, "guest", workload="fork", sut__paging=paging)[0].values
        for paging in ("nested", "shadow")
    )
    pages = FORKS * 64
    assert shadow["exits"] > 10 * nested["exits"] and shadow["exits"] > pages
    assert shadow["elapsed"] > 1.5 * nested["elapsed"]
    assert shadow["guest_faults"] > pages > 10 * nested["guest_faults"]
    assert shadow["shadow_zapped"] > 0 and nested["exits_pf_excp"] == 0
    for values in (nested, shadow):
        by_reason = [values[name] for name in values if name.startswith("exits_")]
        # Some fall between the two readings: a guest with little to do leaves for its timer.
        assert abs(sum(by_reason) - values["exits"]) <= 8 + 0.01 * values["exits"]
        # One start of the agent's own process asks the processor; no program of the workload does.
        assert 0 < values["exits_cpuid"] < 2 * FORKS + 35
    native = trials(run, "native", workload="fork")[0].values
    assert not any(name.startswith("exits") for name in native)
    assert abs(native["minor_faults"] - nested["minor_faults"]) < 0.2 * pages


def test_huge_pages_are_those_that_were_asked_for(run: Path) -> None:
    for platform in ("native", "guest"):
        small, huge = (
            trials(run, platform, workload="touch", knobs__thp=enabled)[0].values
            for enabled in ("never", "always")
        )
        assert (small["huge_share"], huge["huge_share"]) == (0.0, 1.0)
        assert small["thp_faults"] == 0 and huge["thp_faults"] >= 4
        assert small["setup_faults"] > 2048 > 100 > huge["setup_faults"]
        # The same reads take the same number of instructions, wherever and in whatever pages; the
        # kernel takes its ticks in between.
        assert huge["access_rate"] == pytest.approx(small["access_rate"], rel=0.2)


def test_a_guest_has_its_memory_from_its_vmm(run: Path) -> None:
    """What it has touched, and what QEMU takes for itself."""
    guests = [*trials(run, "guest", workload="fork"), *trials(run, "guest", workload="touch")]
    for one in guests:
        assert 30 << 20 < one.values["vmm_proportional"] <= one.values["vmm_resident"] < 1 << 30
    assert not any("vmm_resident" in one.values for one in trials(run, "native"))


def test_what_an_emulated_processor_does_not_count_is_named(run: Path) -> None:
    one = trials(run, "guest", workload="touch", knobs__thp="always")[0]
    with Store.open(run) as store:
        records = store.records(one.planned.id)
    (hardware,) = [r for r in records if isinstance(r, ProbeValues) and r.probe == "hardware"]
    assert hardware.values == {} and hardware.unavailable is None
    assert {"cycles", "instructions", "dtlb_load_misses", "load_walk_cycles"} <= set(
        hardware.absent
    )
    assert all(hardware.absent.values())
    knobs = [r for r in records if isinstance(r, KnobOutcome)]
    assert [k.action for k in knobs] == ["applied", "put_back"]
    assert knobs[0].after == "always" and knobs[0].before == knobs[1].after
