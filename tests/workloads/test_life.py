"""`life`: what it asks of an agent, what is made of its records, and what is refused."""

from __future__ import annotations

import pytest

from hypertare.base.errors import InputError
from hypertare.design import pc, planner
from hypertare.design.design import make
from hypertare.protocol import plan
from hypertare.study import StudyFile
from hypertare.workloads import responses
from tests.made_guests import result

STUDY = """
name = "life"
question = "?"
machine = "{machine}"
[sut]
platforms = {platforms}
memory = "192M"
{sut}
[workloads.life]
type = "life"
{keys}
"""


def study(
    platforms: str = '["native", "container"]',
    sut: str = "",
    keys: str = "",
    machine: str = "local",
) -> StudyFile:
    text = STUDY.format(platforms=platforms, sut=sut, keys=keys, machine=machine)
    return StudyFile(text, "life.toml")


def test_a_node_like_each_that_works_lives_in_a_trial() -> None:
    file = study(sut="guests = 2")
    (plot,) = make(file.study(), 1).plots
    on = planner.MachineResources((0, 1), "tcg", {}, {})
    found = [
        planner.make_trial(1, file.study(), "life", variant, plot, on).phases[-1]
        for variant in plot.variants
    ]
    assert all(not phase.tasks for phase in found)
    native, container = (phase.lives for phase in found)
    assert [(life.id, life.of, life.node.name) for life in native] == [
        ("life.1", "host", "host-life1"),
        ("life.2", "host", "host-life2"),
    ]
    assert [(life.of, life.node.name) for life in container] == [
        ("container1-1", "container1-1-life1"),
        ("container1-2", "container1-2-life1"),
    ]
    assert {life.node.kind for life in native} == {plan.Host()}
    assert {life.node.kind for life in container} == {plan.Container(memory=192 << 20)}
    # There is nothing of a process that could be saved.
    assert not any(life.restored for life in (*native, *container))
    assert all(not life.node.interfaces and life.node.disk is None for life in native)


def test_memory_is_there_for_a_guest_its_like_and_what_that_is_saved_in() -> None:
    sizes = [
        pc.guests_memory(study('["native", "guest"]', keys=keys).study(), 1)
        for keys in ("restore = true", "restore = false")
    ]
    assert sizes == [3 * (192 << 20), 2 * (192 << 20)]


def test_figures_are_what_the_lives_reported() -> None:
    reported = [
        result("life.1", {"answer_s": 2.0, "memory_bytes": 1e8, "restore_s": 0.5}),
        result("life.2", {"answer_s": 4.0, "memory_bytes": 3e8, "restore_s": 0.7}),
    ]
    values = responses.measure("life", "guest", ("guest1-1", "guest1-2"), reported)
    assert values["answer"] == 3.0 and values["memory"] == 4e8
    assert values["restore"] == pytest.approx(0.6)


def test_what_is_not_made_here_has_no_life_to_be_weighed() -> None:
    machine = '[given.a]\nreach = "ssh somewhere"'
    with pytest.raises(InputError, match="is made here: leave them out"):
        study('["native", "given"]', keys=machine).study()
    with pytest.raises(InputError, match="is made here: leave them out"):
        study(sut='image = "debian:12"').study()
