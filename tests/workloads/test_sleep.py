"""`sleep`: its settings, and what is made of records of wake-ups."""

from __future__ import annotations

import pytest

from hypertare.base.errors import InputError
from hypertare.protocol.records import Histogram, Record
from hypertare.study import StudyFile
from hypertare.workloads import responses
from hypertare.workloads.registry import KINDS
from hypertare.workloads.workload import NodeFacts
from tests.made_guests import result

STUDY = 'name = "x"\nquestion = "?"\n[sut]\nplatforms = ["native"]\n[workloads.w]\ntype = "sleep"\n'


def wakeups(latencies_ns: list[int], missed: float, mark: str = "") -> Record:
    buckets = tuple((ns, latencies_ns.count(ns)) for ns in sorted(set(latencies_ns)))
    values = {
        "elapsed_s": 1.0,
        "wakeups": float(len(latencies_ns)),
        "missed": missed,
        "wakeup_p50_ns": float(sorted(latencies_ns)[(len(latencies_ns) - 1) // 2]),
        "wakeup_p99_ns": float(max(latencies_ns)),
        "wakeup_p999_ns": float(max(latencies_ns)),
        "wakeup_max_ns": float(max(latencies_ns)),
    }
    reported = result(f"sleep{mark}", values)
    histograms = {"wakeup": Histogram(unit="ns", buckets=buckets)}
    return reported.model_copy(update={"histograms": histograms})


def test_of_one_guest() -> None:
    values = responses.measure("sleep", "guest", ("guest1",), [wakeups([2000, 4000, 9000], 1.0)])
    assert values["wakeup_p50"] == pytest.approx(4e-6)
    assert values["wakeup_max"] == pytest.approx(9e-6)
    assert (values["wakeups"], values["missed"]) == (3.0, 1.0)


def test_several_guests_have_percentiles_of_all_wakeups_and_the_greatest_latency_of_any() -> None:
    records = [wakeups([1000] * 900, 0.0, ".1"), wakeups([7000] * 100 + [50_000], 3.0, ".2")]
    nodes = ("guest1-1", "guest1-2")
    values = responses.measure("sleep", "guest", nodes, records)
    assert values["wakeup_p50"] == pytest.approx(1e-6)
    assert values["wakeup_p99"] == pytest.approx(7e-6)
    assert values["wakeup_max"] == pytest.approx(50e-6)
    assert (values["wakeups"], values["missed"]) == (1001.0, 3.0)
    first, second = responses.of_guests("sleep", "guest", nodes, records)
    assert (first["wakeup_max"], second["wakeup_max"]) == pytest.approx((1e-6, 50e-6))


def test_a_thread_that_never_woke_has_no_latency() -> None:
    reported = result("sleep", {"elapsed_s": 1.0, "wakeups": 0.0, "missed": 0.0})
    values = responses.measure("sleep", "native", ("host",), [reported])
    assert "wakeup_p50" not in values and values["wakeups"] == 0.0
    assert KINDS["sleep"].headline == "wakeup_p50"


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("interval = 0", "10 us to 50 ms"),
        ('interval = "1s"', "10 us to 50 ms"),
        ('interval = "10ms"\nduration = "5ms"', "longer than 'duration'"),
        ("threads = 0", "at least 1"),
        ("threads = 2", "but it has 1 (sut.cpus)"),
        ('duration = "2 days"', "not a duration"),
    ],
)
def test_what_cannot_be_slept_is_refused_before_a_run(setting: str, said: str) -> None:
    with pytest.raises(InputError) as caught:
        StudyFile(STUDY + setting, "x.toml").study()
    assert said in str(caught.value)


@pytest.mark.parametrize("interval", ["10us", "50ms"])
def test_both_ends_of_the_range_are_in_it(interval: str) -> None:
    StudyFile(STUDY + f'interval = "{interval}"', "x.toml").study()


def test_each_thread_has_a_cpu_where_there_are_as_many() -> None:
    text = STUDY.replace("[sut]\n", "[sut]\ncpus = 2\n") + "threads = 2"
    assert (
        StudyFile(text, "x.toml")
        .study()
        .workloads["w"]
        .misfit(NodeFacts(routed=False, cpus=2, mtu=1500))
        is None
    )
