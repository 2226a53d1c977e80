"""Every probe that trials ask for says who is asked, and declares what it gives."""

from __future__ import annotations

from typing import get_args

import pytest

from hypertare.platforms.registry import KINDS as PLATFORMS
from hypertare.probes.napi import NAPI, OF_POLLS
from hypertare.probes.probe import ProbeKind
from hypertare.probes.registry import KINDS, USUAL, ChosenProbe, measure, responses
from hypertare.protocol import plan
from hypertare.protocol.phase import PHASE, Phase
from hypertare.protocol.records import ProbeValues
from hypertare.workloads.registry import KINDS as WORKLOADS

EVERY = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
NOTHING = Phase({}, {})


def test_each_is_registered_once_and_known_to_the_agent() -> None:
    names = [kind.name for kind in KINDS]
    assert len(set(names)) == len(names)
    assert set(names) <= set(get_args(plan.ProbeName))


def test_studies_may_choose_the_optional_ones() -> None:
    optional = [kind.name for kind in KINDS if kind.is_optional]
    assert sorted(get_args(ChosenProbe)) == sorted(optional)
    assert set(USUAL) <= set(optional)


@EVERY
def test_somebody_is_asked(kind: ProbeKind) -> None:
    assert kind.places


@EVERY
@pytest.mark.parametrize("platform", PLATFORMS)
def test_what_it_gives_is_declared(kind: ProbeKind, platform: str) -> None:
    declared = {response.name for response in kind.responses}
    assert set(kind.measure(NOTHING, platform, ("guest1",))) <= declared
    assert bool(declared) == (kind.topic is not None)


def test_a_topic_is_asked_by_some_workload() -> None:
    for topic in {kind.topic for kind in KINDS if kind.topic is not None}:
        mine = set(responses(topic))
        assert mine and any(mine <= set(kind.responses) for kind in WORKLOADS.values())
        assert set(measure(topic, NOTHING, "guest", ("guest1",))) <= {one.name for one in mine}


def test_polls_that_the_module_does_not_count_are_those_that_were_traced() -> None:
    def reading(probe: plan.ProbeName, **values: float) -> ProbeValues:
        named = {f"eth0.{name}": value for name, value in values.items()}
        return ProbeValues(
            node="guest1", trial=1, phase=PHASE, probe=probe, elapsed_s=2.0, values=named
        )

    traced = reading("polls_traced", polls=10.0, polled_packets=40.0)
    for own, found in (
        (reading("napi"), (20.0, 5.0, 4.0)),
        (reading("napi", polls=6.0, polled_packets=6.0), (3.0, 3.0, 1.0)),
    ):
        phase = Phase.of([own, traced])
        measured = NAPI.measure(phase, "guest", ["guest1"])
        assert tuple(measured[name] for name in OF_POLLS) == found
