"""What a stream costs beside CPU time, of records whose figures are known."""

from __future__ import annotations

from typing import Any

import pytest

from hypertare.protocol.phase import PHASE, Phase
from hypertare.protocol.records import ProbeValues, Record, TaskResult
from hypertare.workloads.stream_work import RESPONSES, measure
from tests.made_tasks import purpose_of

MB = 1e6


def probe(name: Any, **values: float) -> ProbeValues:
    named = {key.replace("__", "."): value for key, value in values.items()}
    return ProbeValues(node="guest1", trial=1, phase=PHASE, probe=name, elapsed_s=2.0, values=named)


def task(node: str, role: str, **values: float) -> TaskResult:
    return TaskResult(
        node=node, trial=1, phase=PHASE, task=role, values=values, purpose=purpose_of(role)
    )


COUNTERS: list[Record] = [
    probe("stat", context_switches=300.0),
    probe("vmstat", pgfault=50.0),
    probe("net_snmp", TcpExt__TCPOrigDataSent=8000.0, Tcp__InSegs=2000.0),
]


def measured(*records: Record) -> dict[str, float | None]:
    return measure(Phase.of([*COUNTERS, *records]), "guest1")


def test_a_node_that_sends() -> None:
    found = measured(
        task("guest1", "send", all_bytes=10 * MB, all_calls=20_000),
        task("peer", "receive", all_bytes=10 * MB, all_calls=900),
    )
    assert found == {
        "context_switch_rate": 150.0,
        "switches_per_megabyte": 30.0,
        "fault_rate": 25.0,
        "faults_per_megabyte": 5.0,
        "calls_per_megabyte": 2000.0,
        "mean_segment": 1250.0,
    }
    assert found.keys() == {response.name for response in RESPONSES}


def test_a_node_that_receives_and_has_its_segments_joined() -> None:
    found = measured(
        task("peer", "send", all_bytes=10 * MB, all_calls=20_000),
        task("guest1", "receive", all_bytes=10 * MB, all_calls=900),
    )
    assert found["calls_per_megabyte"] == pytest.approx(90.0)
    assert found["mean_segment"] == 5000.0


def test_datagrams_and_both_ways_have_no_mean_segment() -> None:
    ends = (
        task("guest1", "send", all_bytes=10 * MB, all_calls=20_000),
        task("peer", "receive", all_bytes=10 * MB, all_calls=900, lost_packets=0.0),
    )
    assert measured(*ends)["mean_segment"] is None
    both = (task("guest1", role, all_bytes=10 * MB, all_calls=9) for role in ("send", "receive"))
    assert measured(*both)["mean_segment"] is None


def test_what_was_not_counted_is_not_there() -> None:
    only = [task("guest1", "send"), task("peer", "receive")]
    found = measure(Phase.of(only), "guest1")
    assert set(found.values()) == {None}
