"""`[jitter]`: what it asks for, what it makes of a run, and that the registry finds it."""

from __future__ import annotations

import pytest

from hypertare.analyses.analysis import Figure, Observed
from hypertare.analyses.jitter import Jitter, JitterSettings
from hypertare.analyses.registry import KINDS
from hypertare.base.errors import InputError
from hypertare.design import planner
from hypertare.design.design import make
from hypertare.protocol import plan
from hypertare.study import StudyFile

TEXT = """
name = "voice"
question = "?"
[sut]
platforms = ["native", "container"]
[workloads.voice]
type = "stream"
{stream}
[workloads.work]
type = "burn"
{jitter}
"""
RATED = 'protocol = "udp"\nrate = "1M"\nmessage = 250\nflows = 2'


def study(stream: str = RATED, jitter: str = "[jitter]") -> StudyFile:
    return StudyFile(TEXT.format(stream=stream, jitter=jitter), "voice.toml")


def receives(file: StudyFile) -> list[plan.StreamReceive]:
    (plot,) = make(file.study(), 1).plots
    on = planner.MachineResources((0, 1), "tcg", {}, {})
    trial = planner.make_trial(1, file.study(), "voice", plot.variants[0], plot, on)
    tasks = [task.workload for phase in trial.phases for task in phase.tasks]
    return [one for one in tasks if isinstance(one, plan.StreamReceive)]


def test_receivers_note_gaps_only_where_it_is_asked_for() -> None:
    # 250 bytes at 1 Mb/s over two flows: one of a flow every 4 ms.
    assert [one.every_ns for one in receives(study())] == [4e6]
    assert [one.every_ns for one in receives(study(jitter=""))] == [None]


@pytest.mark.parametrize(
    ("stream", "jitter", "said"),
    [
        ("", "[jitter]", r"voice.toml:\d+: jitter: no workload has jitter: a ping has it"),
        ('protocol = "udp"', "[jitter]", "a stream over UDP with a rate"),
        (RATED, '[jitter]\nworkloads = ["work"]', "'work' has no jitter"),
        (RATED, '[jitter]\nworkloads = ["voise"]', "Did you mean 'voice'"),
        (RATED, "[jitter]\nof = 1", "there is no such key"),
    ],
)
def test_what_cannot_be_had_is_refused(stream: str, jitter: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        study(stream, jitter).study()


def test_it_shows_gaps_of_streams_and_round_trips_of_pings() -> None:
    def figure(value: float) -> Figure:
        return Figure(value, value / 2, value * 2, "s")

    gaps = {"jitter": figure(1.0), "gap_p50": figure(2.0), "gap_sd": figure(3.0)}
    trips = {"rtt_jitter": figure(4.0), "rtt_p99": figure(5.0)}
    observed = [
        Observed("native", {"workload": "voice"}, gaps),
        Observed("guest", {"workload": "rtt"}, trips),
        Observed("guest", {"workload": "bulk"}, {"goodput": figure(1.0)}),
    ]
    found = Jitter().analyse(JitterSettings(), observed)
    assert [(row.platform, row.what) for row in found.rows] == [
        ("native", "gaps"),
        ("guest", "round trips"),
    ]
    assert found.rows[0].figures == (figure(1.0), figure(2.0), None, None, figure(3.0))
    assert len(found.columns) == len(found.rows[1].figures)
    only = Jitter().analyse(JitterSettings(workloads=("rtt",)), observed)
    assert [row.platform for row in only.rows] == ["guest"]


def test_every_file_of_the_folder_is_found() -> None:
    assert isinstance(KINDS["jitter"], Jitter)
    assert all(name == kind.name for name, kind in KINDS.items())
