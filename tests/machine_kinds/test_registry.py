"""Every kind of machine is known to studies, which it gives what they do not say."""

from __future__ import annotations

from typing import get_args

import pytest

from hypertare.base.errors import InputError
from hypertare.engine.runners.runner import Runner, runner_of
from hypertare.machine_kinds.machine_kind import CLOCKS, ClockName, MachineKind
from hypertare.machine_kinds.registry import KINDS, USUAL, MachineName, find
from hypertare.platforms.registry import BASELINE
from hypertare.study import Study, StudyFile

EVERY = pytest.mark.parametrize("kind", KINDS.values(), ids=lambda kind: kind.name)


def raw(machine: str | None) -> dict[str, object]:
    found = {"name": "x", "question": "?", "workloads": {"fork": {"type": "fork"}}}
    if machine is None:
        return found
    reached = {"remote": {"reach": "ssh lab"}} if KINDS[machine].is_reached else {}
    return {**found, **reached, "machine": machine}


def study(machine: str | None) -> Study:
    return StudyFile.of(raw(machine), "x").study()


def test_studies_may_name_each() -> None:
    assert tuple(KINDS) == get_args(MachineName)
    assert study(None).machine == USUAL


def test_studies_may_name_each_clock() -> None:
    assert tuple(CLOCKS) == get_args(ClockName)
    assert {clock for kind in KINDS.values() for clock in kind.clocks} == set(CLOCKS)


def test_what_is_none_is_said() -> None:
    with pytest.raises(InputError, match="no kind of machine 'loom'; there are: "):
        find("loom")


@EVERY
def test_it_gives_what_a_study_does_not_say(kind: MachineKind) -> None:
    made = study(kind.name)
    assert made.machine_kind is kind
    assert made.clock == kind.clocks[0]
    assert made.sut.platforms == kind.usual_platforms and BASELINE in kind.usual_platforms


@EVERY
def test_it_has_clocks_of_its_own_and_no_others(kind: MachineKind) -> None:
    for clock in get_args(ClockName):
        file = StudyFile.of({**raw(kind.name), "clock": clock}, "x")
        if clock in kind.clocks:
            assert file.study().clock == clock
        else:
            with pytest.raises(InputError, match=f"'{kind.name}' has no {clock} clock"):
                file.study()


@EVERY
def test_what_it_says_goes_together(kind: MachineKind) -> None:
    assert set(kind.own_tables) <= set(Study.model_fields)
    assert not (kind.is_this_host and kind.boots_whole_pcs)
    assert kind.is_sandboxed is not kind.boots_whole_pcs
    assert not (kind.is_this_host and kind.is_reached)
    assert (kind.line_nic is not None) <= kind.line_counts_frames
    assert kind.is_slowed_by_host <= kind.is_virtual


@EVERY
def test_studies_are_run_on_it(kind: MachineKind) -> None:
    assert isinstance(runner_of(kind), Runner)
