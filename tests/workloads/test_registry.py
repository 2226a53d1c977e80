"""Every kind of workload says what a plan and a report need of it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import get_args

import pytest
from pydantic import TypeAdapter

from hypertare.protocol import plan
from hypertare.protocol.phase import Phase
from hypertare.workloads.pair import End, Pair
from hypertare.workloads.registry import KINDS, AnyWorkload
from hypertare.workloads.workload import TaskInputs, Workload, WorkloadSettings

NEEDED = {"command": {"command": ["true"]}}
PAIR = Pair(0, "guest1", End("guest1", "10.0.0.2"), End("peer", "10.0.0.1"), ("eth0",), None)
LIKE = plan.Node(name="guest1", kind=plan.Host())
INPUTS = TaskInputs(environment={}, cwd=Path("/"))
EVERY = pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)


def settings_of(kind: Workload) -> WorkloadSettings:
    raw = {"type": kind.name, **NEEDED.get(kind.name, {})}
    found: WorkloadSettings = TypeAdapter(AnyWorkload).validate_python(raw)
    return found


def _works(settings: WorkloadSettings, pair: Pair) -> list[plan.Task | plan.Life]:
    return [*settings.tasks(pair, INPUTS), *settings.lives(pair, LIKE, 0.5)]


@EVERY
def test_settings_and_kind_know_each_other(kind: Workload) -> None:
    assert settings_of(kind).kind is kind
    assert get_args(kind.settings.model_fields["type"].annotation) == (kind.name,)


@EVERY
def test_its_tasks_end_before_its_limit(kind: Workload) -> None:
    settings = settings_of(kind)
    assert 0 <= (settings.expected_s or 0.0) < settings.limit_s
    tasks, lives = settings.tasks(PAIR, INPUTS), settings.lives(PAIR, LIKE, 0.5)
    assert lives or any(not task.background for task in tasks)
    nodes = {*(task.node for task in tasks), *(life.of for life in lives)}
    assert nodes == {"guest1", *(["peer"] if kind.needs_network else [])}


@EVERY
def test_each_of_its_tasks_says_what_it_is_for(kind: Workload) -> None:
    alone, second = (
        [one.purpose for one in _works(settings_of(kind), replace(PAIR, number=number))]
        for number in (None, 2)
    )
    assert len(set(alone)) == len(alone)
    assert {purpose and purpose.pair for purpose in alone} == {None}
    assert [one and one.model_copy(update={"pair": 2}) for one in alone] == second


@EVERY
def test_what_it_measures_is_declared_and_its_headline_first_of_all(kind: Workload) -> None:
    names = [response.name for response in kind.responses]
    assert len(set(names)) == len(names)
    assert kind.own_responses[0].name == kind.headline
    assert set(kind.measure(Phase({}, {}))) <= set(names)


@EVERY
def test_ports_are_moved_by_what_the_machine_draws(kind: Workload) -> None:
    settings = settings_of(kind)
    moved = settings.tasks(PAIR, TaskInputs(environment={}, cwd=Path("/"), port_offset=7))
    assert (moved != settings.tasks(PAIR, INPUTS)) == kind.needs_network
