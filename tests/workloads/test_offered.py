"""How much of the asked rate peers sent: the rest no receiver had."""

from __future__ import annotations

import pytest

from hypertare.protocol.phase import PHASE
from hypertare.protocol.records import Record, TaskResult
from hypertare.workloads import responses
from tests.made_tasks import purpose_of


def task(node: str, name: str, **values: float) -> TaskResult:
    return TaskResult(
        node=node, trial=1, phase=PHASE, task=name, values=values, purpose=purpose_of(name)
    )


def share_of(*records: Record, nodes: tuple[str, ...] = ("guest1",)) -> float | None:
    return responses.measure("stream", "guest", nodes, records).get("offered_share")


def of_datagrams(node: str = "guest1") -> TaskResult:
    return task(node, "receive", received_bytes=1e6, lost_packets=0.0)


def test_of_a_peer_that_was_slower_than_it_was_asked_for() -> None:
    found = share_of(task("peer", "send", sent_bps=55e6, offered_bps=165e6), of_datagrams())
    assert found == pytest.approx(1 / 3)


def test_a_system_under_test_that_sends_is_its_own_limit() -> None:
    sender = task("guest1", "send", sent_bps=55e6, offered_bps=165e6)
    assert share_of(sender, of_datagrams("peer")) is None


def test_a_sender_without_a_rate_was_asked_for_nothing() -> None:
    assert share_of(task("peer", "send", sent_bps=55e6), of_datagrams()) is None


def test_tcp_waits_for_its_receiver() -> None:
    sender = task("peer", "send", sent_bps=55e6, offered_bps=165e6)
    assert share_of(sender, task("guest1", "receive", received_bytes=1e6)) is None


def test_of_several_guests_the_peers_together() -> None:
    records = [
        task("peer1", "send.1", sent_bps=30e6, offered_bps=30e6),
        task("guest1", "receive.1", received_bytes=1e6, lost_packets=0.0),
        task("peer2", "send.2", sent_bps=10e6, offered_bps=30e6),
        task("guest2", "receive.2", received_bytes=1e6, lost_packets=0.0),
    ]
    assert share_of(*records, nodes=("guest1", "guest2")) == pytest.approx(4 / 6)
