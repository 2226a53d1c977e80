"""Where the packets went: the parts add up, and a part that was not counted leaves no account."""

from __future__ import annotations

from typing import Any

import pytest

from hypertare.probes.napi import NAPI
from hypertare.protocol.phase import PHASE
from hypertare.protocol.records import Histogram, ProbeValues, Record, TaskResult
from hypertare.workloads import responses
from hypertare.workloads.packets import Account, account
from tests.made_tasks import purpose_of

QUIET = {
    "backlog": 0.0,
    "socket": 0.0,
    "memory": 0.0,
    "no_port": 0.0,
    "checksum": 0.0,
    "ip_receive": 0.0,
    "ip_transmit": 0.0,
}


def drops(node: str, link: str, **counted: float) -> ProbeValues:
    ways = ("ring", "receive", "damaged", "transmit", "queue")
    values = QUIET | {f"{link}.{way}": 0.0 for way in ways}
    values |= {key.replace("__", "."): count for key, count in counted.items()}
    return probe(node, "drops", values)


def probe(node: str, name: Any, values: dict[str, float], **more: Any) -> ProbeValues:
    return ProbeValues(
        node=node, trial=1, phase=PHASE, probe=name, elapsed_s=2.0, values=values, **more
    )


def ends(sent: float, received: float) -> list[Record]:
    return [
        TaskResult(
            node=node,
            trial=1,
            phase=PHASE,
            task=task,
            values={"all_packets": count},
            purpose=purpose_of(task),
        )
        for node, task, count in (("peer", "send", sent), ("guest1", "receive", received))
    ]


def records() -> list[Record]:
    return [
        *ends(1000, 600),
        drops("peer", "eth0", eth0__queue=5),
        drops("host", "tap3", tap3__transmit=300, veth1__receive=7),
        drops("guest1", "eth0", eth0__ring=20, eth0__receive=35, backlog=30, socket=40),
    ]


def test_every_packet_has_its_place() -> None:
    found = account(records(), "guest1")
    assert found is not None
    reported = {place: count for place, count in found.dropped.items() if count}
    assert reported == {
        "sender": 5,
        "tap": 300,
        "ring": 20,
        "backlog": 30,
        "driver": 5,
        "socket": 40,
    }
    assert found.unexplained == 0


def test_what_nobody_reports_is_unexplained() -> None:
    lost = Account(sent=10, received=4, dropped={"ring": 5}, others=3)
    assert lost.unexplained == 1 and not lost.adds_up


def test_frames_of_others_may_be_among_the_dropped() -> None:
    reported = [
        *records(),
        probe("peer", "net_dev", {"eth0.tx_packets": 1002.0, "lo.tx_packets": 0.0}),
    ]
    found = account(reported, "guest1")
    assert found is not None and found.others == 2
    for count, adds_up in ((0, True), (2, True), (3, False)):
        dropped = {**found.dropped, "tap": found.dropped["tap"] + count}
        assert Account(found.sent, found.received, dropped, found.others).adds_up == adds_up


@pytest.mark.parametrize("missing", range(5))
def test_a_part_that_was_not_counted_leaves_no_account(missing: int) -> None:
    left = [record for place, record in enumerate(records()) if place != missing]
    assert (account(left, "guest1") is None) == (missing != 3)
    if missing == 3:
        # Without the machine's there is no tap: so it is on an emulated machine.
        assert account(left, "guest1").unexplained == 300  # type: ignore[union-attr]


def test_a_probe_that_is_not_available_is_no_zero() -> None:
    reported = records()
    reported[3] = probe("host", "drops", {}, unavailable="no rights")
    assert account(reported, "guest1") is None
    reported += [
        probe("guest1", "net_dev", {}),
        probe("guest1", "napi", {}, unavailable="no tracefs"),
    ]
    values = responses.measure("stream", "guest", ("guest1",), reported)
    assert values["drops_socket"] == 40
    assert "drops_ring" not in values and "driver_packet_rate" not in values


def test_responses_of_polls() -> None:
    buckets = ((0, 10), (4, 25))
    reported: list[Record] = [
        *records(),
        probe("guest1", "net_dev", {}),
        probe("guest1", "stat", {"busy_s": 1.0, "softirq_s": 0.5}),
        probe("guest1", "outside", {"cpu_s": 1.8}),
        probe(
            "guest1",
            "napi",
            {
                "eth0.polls": 35.0,
                "eth0.polled_packets": 100.0,
                "eth0.interrupts": 20.0,
                "ksoftirqd_s": 0.4,
            },
            histograms={"eth0.packets_per_poll": Histogram(unit="packets", buckets=buckets)},
        ),
    ]
    values = responses.measure("stream", "guest", ("guest1",), reported)
    expected = {
        "driver_packet_rate": 50,
        "poll_rate": 17.5,
        "packets_per_poll": 100 / 35,
        "interrupt_rate": 10,
        "softirq_cpu": 0.25,
        "ksoftirqd_share": 0.2,
        "drops_ring": 320,
        "drops_backlog": 30,
        "drops_socket": 40,
        "drops_other": 10,
        "own_cpu_share": 0.5,
        "outside_cpu_share": 0.9,
    }
    assert {name: values[name] for name in expected} == pytest.approx(expected)
    assert NAPI.histogram(reported, "guest1") == {0: 10, 4: 25}
    assert NAPI.histogram(records(), "guest1") == {}
