"""The spread of times that tasks reported as histograms."""

from __future__ import annotations

import pytest

from hypertare.protocol.phase import PHASE, Phase
from hypertare.protocol.records import Histogram, Record, TaskResult
from hypertare.workloads import responses
from hypertare.workloads.latencies import spread
from tests.made_tasks import purpose_of


def task(name: str, *buckets: tuple[int, int]) -> TaskResult:
    return TaskResult(
        node="peer",
        trial=1,
        phase=PHASE,
        task=name,
        values={"rtt_p50_ns": 3000.0},
        histograms={"rtt": Histogram(unit="ns", buckets=buckets)},
        purpose=purpose_of(name),
    )


def test_by_n_less_one_over_all_tasks() -> None:
    """1, 1, 3, 5 µs: mean 2.5, squares 2.25 + 2.25 + 0.25 + 6.25 = 11."""
    records: list[Record] = [
        task("request.1", (1000, 2)),
        task("request.2", (3000, 1), (5000, 1)),
        task("reply.1", (9000, 9)),
    ]
    found = spread(Phase.of(records), "request", "rtt")
    assert found == {"rtt_sd": pytest.approx((11 / 3) ** 0.5 * 1e-6)}


def test_one_alone_has_none() -> None:
    assert spread(Phase.of([task("request", (1000, 1))]), "request", "rtt") == {}
    assert spread(Phase.of([]), "request", "rtt") == {}


def test_round_trips_have_it() -> None:
    values = responses.measure("ping", "native", ("host",), [task("request", (1000, 2), (3000, 2))])
    assert values["rtt_sd"] == pytest.approx((4 / 3) ** 0.5 * 1e-6)
