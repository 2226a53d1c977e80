"""A line of a limited rate: filled, and never more than that."""

from __future__ import annotations

from typing import Any

import pytest

from hypertare.protocol.records import KnobOutcome
from hypertare.runs.store import Store
from tests.integration.lab import Lab

STREAMS = """
[workloads.tcp]
type = "stream"
direction = "transmit"
duration = "500ms"
omit = "200ms"
interval = "100ms"
[workloads.back]
type = "stream"
direction = "receive"
duration = "500ms"
omit = "200ms"
interval = "100ms"
[workloads.udp]
type = "stream"
protocol = "udp"
rate = "40M"
duration = "500ms"
omit = "200ms"
interval = "100ms"
[factors]
"sut.guests" = [1, 2]
[design]
min_trials = 2
max_trials = 2
min_boots = 1
"""
EMULATED = """
name = "emulated-line"
question = "Does the line carry what it should, and no more?"
machine = "emulated"
[bench]
line_rate = "40 Mb/s"
"""
RINGS = """
[workloads.rings]
type = "stream"
duration = "500ms"
omit = "200ms"
interval = "100ms"
factors = { "sut.guests" = [1], "knobs.line_ring" = [32, 256] }
"""
HERE = """
name = "line-here"
question = "Does the line carry no more than it should?"
[sut]
platforms = ["native", "container"]
[bench]
line_rate = "40 Mb/s"
"""


def shares(reported: Any) -> dict[tuple[Any, ...], float]:
    assert reported["failed"] == []
    return {
        (one["platform"], *one["cell"].values()): one["estimate"]
        for one in reported["estimates"]
        if one["response"] == "line_share"
    }


@pytest.mark.guest
def test_in_virtual_time_streams_fill_the_line_and_no_more(lab: Lab) -> None:
    # Received data comes in pieces of up to 64 KB, of which one more or less is in what was measured.
    longer = STREAMS.replace('duration = "500ms"', 'duration = "1200ms"')
    ran = lab.run("run", lab.study(EMULATED + longer + RINGS), "--json", "--out", "line")
    assert ran.status == 0, ran.said
    found = shares(ran.json)
    assert len(found) == 8
    for key, share in found.items():
        assert 0.97 <= share <= 1.015, key
    report = lab.run("report", "line")
    assert "of the line of tcp" in report.said and "37.66 Mb/s" in report.said
    with Store.open(lab.work / "line") as store:
        for trial in store.trials():
            ring = trial.planned.cell.get("knobs.line_ring")
            outcomes = [r for r in store.records(trial.planned.id) if isinstance(r, KnobOutcome)]
            # Both cards', as their drivers report it, and put back.
            wanted = [] if ring is None else 2 * [("256", str(ring))] + 2 * [(str(ring), "256")]
            assert [(one.before, one.after) for one in outcomes] == wanted


def check_here(lab: Lab, streams: str, count: int) -> None:
    ran = lab.run("run", lab.study(HERE + streams), "--json", "--out", "line")
    assert ran.status == 0, ran.said
    found = shares(ran.json)
    assert len(found) == count
    for key, share in found.items():
        assert 0.4 <= share <= 1.15, key


@pytest.mark.runs
def test_on_this_host_no_stream_gets_more_than_the_line_carries(lab: Lab) -> None:
    """How much of it a busy host fills is not this test's to say; and a receiver that was kept waiting
    reads what had come before its time began.
    """
    check_here(lab, STREAMS, 12)


@pytest.mark.runs
def test_peers_that_speak_first_go_by_the_line_too(lab: Lab) -> None:
    """Natively both ends of the line are bridges of one node, which must not answer on the wrong one."""
    text = STREAMS[STREAMS.index("[workloads.back]") : STREAMS.index("[workloads.udp]")]
    text += STREAMS[STREAMS.index("[factors]") :]
    check_here(lab, text, 4)


TUNED = """
[tune]
throughput = "line_share"
platform = "container"
workload = "tcp"
budget = 16
[tune.knobs]
"workloads.tcp.message" = ["1K", "64K"]
"""


@pytest.mark.runs
def test_a_tuning_knows_what_the_line_carries(lab: Lab) -> None:
    """Its trials are asked for one by one, and yet are what a run's are."""
    streams = STREAMS.split("[workloads.udp]")[0]
    ran = lab.run("tune", lab.study(HERE + streams + TUNED), "--out", "tuned")
    assert ran.status == 0, ran.said
    assert "line share" in ran.said
