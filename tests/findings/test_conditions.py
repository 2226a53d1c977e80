"""What disturbed a run is named with how much and how often; an idle machine names nothing."""

from __future__ import annotations

import pytest

from hypertare.design.trials import FinishedTrial, PlannedTrial
from hypertare.findings.doubt import disturbances, disturbed, uneven, warning
from hypertare.probes.conditions import Seen
from hypertare.runs.store import OtherProgram
from hypertare.runs.summary import Disturbance

BLOCKS = 20


def trial(ident: int, block: int, platform: str = "native", steal: float = 0.0) -> FinishedTrial:
    planned = PlannedTrial(ident, block, 0, platform, {"workload": "command"})
    return FinishedTrial(planned, "ok", None, 1.0, {"machine_steal": steal})


def run(others_s: float = 0.0, steal: float = 0.0) -> tuple[list[FinishedTrial], dict[int, Seen]]:
    """Two trials a block of half a second each; in the first half of the blocks something happened."""
    trials, seen = [], {}
    for ident in range(2 * BLOCKS):
        early = ident < BLOCKS
        trials.append(trial(ident, ident // 2, steal=steal if early else 0.0))
        seen[ident] = Seen(0.5, others_s if early else 0.0, 0.0)
    return trials, seen


def beside(name: str, cpus: float, blocks: int) -> list[OtherProgram]:
    return [OtherProgram(block, name, cpus) for block in range(blocks)]


def test_an_idle_machine_names_nothing() -> None:
    trials, seen = run(others_s=0.01, steal=0.005)
    assert not disturbances(trials, seen, beside("systemd", 0.02, BLOCKS))
    assert not disturbances(trials, seen, beside("cron", 0.9, 1))


def test_a_busy_program_is_named_with_how_much_and_how_often() -> None:
    trials, seen = run(others_s=0.4)
    programs = [*beside("qemu", 0.5, 4), OtherProgram(4, "qemu", 0.9), OtherProgram(999, "far", 2)]
    (found,) = disturbances(trials, seen, programs)
    assert disturbed([found]) == "another program, qemu, took 58 % of a CPU in 5 of 20 blocks"
    assert "stop it" in warning(found)


def test_the_greatest_come_first_and_few_are_named() -> None:
    trials, seen = run()
    programs = [OtherProgram(block, f"p{block % 5}", 0.2 + block % 5) for block in range(BLOCKS)]
    found = disturbances(trials, seen, programs)
    assert [one.program for one in found] == ["p4", "p3", "p2"]
    assert disturbed(found) == (
        "another program, p4, took 4.2 CPUs in 4 of 20 blocks; "
        "so did p3, 3.2 CPUs in 4 and p2, 2.2 CPUs in 4"
    )


def test_work_that_cannot_be_seen_is_named_as_such() -> None:
    trials, seen = run(others_s=0.4)
    (found,) = disturbances(trials, seen, [])
    assert disturbed([found]).startswith(
        "work that cannot be seen from here took 80 % of a CPU in 10 of 20"
    )


def test_ticks_alone_are_no_work() -> None:
    """Of trials of 5 ms one tick of 10 ms looks like two CPUs."""
    trials, _ = run()
    seen = {one.planned.id: Seen(0.005, 0.01, None) for one in trials}
    assert not disturbances(trials, seen, [])


def test_a_hypervisor_below_is_named() -> None:
    trials, seen = run(steal=0.1)
    (found,) = disturbances(trials, seen, [])
    assert (
        disturbed([found])
        == "a hypervisor below this machine took 20 % of a CPU in 10 of 20 blocks"
    )


@pytest.mark.parametrize(
    ("mine", "its", "waited", "doubted"),
    [
        (0.9, 0.2, 0.5, True),
        (0.2, 0.9, 0.5, True),
        (0.9, 0.8, 0.5, False),
        (0.9, 0.2, 0.01, False),
        (0.9, 0.2, None, True),
    ],
    ids=["beside it", "beside the baseline", "alike", "with CPUs to spare", "without PSI"],
)
def test_a_comparison_beside_unlike_work_is_in_doubt(
    mine: float, its: float, waited: float | None, doubted: bool
) -> None:
    sides = [trial(0, 0, "guest")], [trial(1, 0)]
    seen = {
        0: Seen(2.0, 2 * mine, None if waited is None else 2 * waited),
        1: Seen(2.0, 2 * its, None if waited is None else 2 * waited),
    }
    why = uneven(*sides, seen)
    assert (why is not None) == doubted
    if why:
        assert f"{mine:.2g} CPUs while it ran and {its:.2g}" in why


def test_what_was_watched_for_moments_only_is_in_no_doubt() -> None:
    assert (
        uneven([trial(0, 0)], [trial(1, 0)], {0: Seen(0.4, 0.4, None), 1: Seen(2, 0, None)}) is None
    )
    assert uneven([trial(0, 0)], [trial(1, 0)], {}) is None


def test_another_run_is_called_one() -> None:
    one = Disturbance(what="program", program="hypertare-agent", cpus=0.23, blocks=4, of=4)
    assert disturbed([one]).startswith(
        "another run of hypertare took 23 % of a CPU in all 4 blocks"
    )
