"""Which searches a study asks for, and what cannot be searched."""

from __future__ import annotations

import pytest

from hypertare.base.errors import InputError
from hypertare.search.plan import Setting, plan
from hypertare.study import StudyFile

TEXT = """
name = "s"
question = "?"
[workloads.udp]
type = "stream"
protocol = "udp"
rate = "10M"
[workloads.tcp]
type = "stream"
[workloads.rtt]
type = "ping"
[factors]
"knobs.napi_weight" = [1, 64]
"sut.nic" = ["e1000", "virtio-net"]
"workloads.udp.rate" = ["1M", "2M"]
"workloads.tcp.flows" = [1, 2]
[search]
workload = "udp"
"""


def planned(*changes: str):
    file = StudyFile(TEXT, "s.toml")
    file.override([f"search.{change}" for change in changes], False)
    return plan(file, file.study())


def test_a_study_without_a_search_has_none() -> None:
    file = StudyFile(TEXT.split("[search]")[0], "s.toml")
    assert plan(file, file.study()) is None


def test_one_search_a_platform_and_setting() -> None:
    found = planned('over=["knobs.napi_weight", "sut.nic"]')
    # Only guests have a NIC of their own.
    natives = [Setting("native", {"knobs.napi_weight": weight}) for weight in (1, 64)]
    assert [place for place in found.places if place.platform == "native"] == natives
    assert sum(place.platform == "guest" for place in found.places) == 4
    assert found.platforms == ("native", "container", "guest")


def test_what_is_searched_takes_the_place_of_the_rate() -> None:
    found = planned('platforms=["native"]', 'duration="500ms"')
    (place,) = found.places
    assert found.levels(place, 5e6) == {
        "workloads.udp.rate": 5e6,
        "workloads.udp.duration": 0.5,
    }


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ('workload="dup"', "no workload 'dup'"),
        ('workload="tcp"', "over TCP"),
        ('workload="rtt"', "'rtt' is a ping"),
        ('over=["sut.cpus"]', "no factor"),
        ('over=["workloads.udp.rate"]', "the search itself sets"),
        ('over=["workloads.tcp.flows"]', "does not concern udp"),
        ('platforms=["xen"]', "no platform of the study"),
        ('duration="100ms"', "workloads.udp.omit"),
        ("width=0", "width"),
        ('low="0"', "above 0"),
        ("most_trials=1", "most_trials"),
    ],
)
def test_what_cannot_be_searched_is_refused_in_a_sentence(change: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        planned(change)


def test_the_lowest_rate_is_below_the_highest() -> None:
    with pytest.raises(InputError, match="'low' must be below 'high'"):
        planned('low="2M"', 'high="1M"')


def test_a_tuning_of_such_a_study_searches_nothing() -> None:
    from hypertare.tune.session import prepare

    knobs = '\n[tune.knobs]\n"workloads.udp.batch" = [1, 32]\n'
    text = TEXT.replace('workload = "udp"\n', 'workload = "udp"\nover = ["sut.nic"]\n')
    assert prepare(StudyFile(text + knobs, "s.toml"), 1).run.search is None
