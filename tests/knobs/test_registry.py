"""Every knob has its key in a study, a place where it is set, and commands for all that it holds."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, get_args

import pytest
from pydantic import BaseModel

from hypertare.knobs.knob import KnobKind, Target
from hypertare.knobs.mtu import MTU
from hypertare.knobs.registry import KINDS, Knobs
from hypertare.knobs.scheduler_weights import GUEST_WEIGHTS
from hypertare.protocol import plan


def tables(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for part in get_args(annotation):
        yield from tables(part)


def test_each_is_registered_once_and_is_a_key_of_studies() -> None:
    names = [kind.name for kind in KINDS]
    assert len(set(names)) == len(names)
    assert set(names) == set(Knobs.model_fields)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_there_are_commands_for_all_that_it_holds(kind: KnobKind[Any]) -> None:
    annotation = Knobs.model_fields[kind.name].annotation
    wanted = {key for table in tables(annotation) for key in table.model_fields}
    assert wanted <= set(kind.commands) or set(kind.commands) == {"*"}
    assert kind.commands


def test_what_is_given_comes_in_the_order_of_the_registry() -> None:
    knobs = Knobs.model_validate({"ksm": True, "mtu": 1400, "busy_poll": 0})
    assert [kind.name for kind in knobs.given() if knobs.level(kind)] == ["mtu", "ksm"]
    assert "busy_poll" in [kind.name for kind in knobs.given()]


def test_the_agent_gets_the_target() -> None:
    reported = list(MTU.for_agent(1400, Target("guest1", "eth0")))
    assert reported == [plan.Mtu(interface="eth0", bytes=1400)]
    second = Target("host", guest="guest2", rank=1)
    weights = list(GUEST_WEIGHTS.for_agent((256, 128), second))
    assert weights == [plan.SchedulerWeight(weight=128, guest="guest2")]
    assert list(GUEST_WEIGHTS.for_agent((256,), second)) == []
