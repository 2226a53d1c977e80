"""Searches of loss-free rates as a user has them."""

from __future__ import annotations

import signal

import pytest

from tests.integration.lab import Lab, Traces, assert_repeats, summary, trials

HERE = """
name = "here"
question = "Up to which rate does nothing get lost?"
[sut]
platforms = ["native", "container"]
[workloads.udp]
type = "stream"
protocol = "udp"
direction = "receive"
omit = "20ms"
interval = "50ms"
[factors]
"workloads.udp.message" = [64, 1400]
[search]
workload = "udp"
over = ["workloads.udp.message"]
only = true
low = "100K"
duration = "100ms"
sum = "100ms"
width = "40%"
most_trials = 8
"""

WEIGHTS = """
name = "weights"
question = "Does a low weight cost loss-free rate?"
machine = "emulated"
[sut]
memory = "192M"
nic = "e1000"
[workloads.udp]
type = "stream"
protocol = "udp"
direction = "receive"
omit = "20ms"
interval = "50ms"
[factors]
"knobs.napi_weight" = [1, 64]
[search]
workload = "udp"
over = ["knobs.napi_weight"]
only = true
loss = [0]
duration = "120ms"
sum = "120ms"
width = "10%"
"""


@pytest.mark.runs
def test_it_goes_on_after_ctrl_c_and_leaves_nothing(lab: Lab) -> None:
    before = Traces.now()
    lab.study(HERE)
    run = lab.work / "run"
    started = lab.start("run", "study.toml", "--out", "run")
    started.until_trials(run, 5)
    before.agents.update(started.agents())
    started.stop(signal.SIGINT)
    ran = started.end()
    assert ran.status == 130 and "--resume" in ran.err, ran.said
    # A search that was done by then ended as this host's noise had it; none may have failed.
    states = {one["state"] for one in summary(run)["loss_free"]}
    assert "open" in states and "failed" not in states, states
    done = len(trials(run))
    resumed = lab.run("run", "--resume", "--out", "run", "--json")
    assert resumed.status == 0, resumed.said
    found = resumed.json["loss_free"]
    places = {(one["platform"], one["cell"]["workloads.udp.message"]) for one in found}
    assert places == {(p, m) for p in ("native", "container") for m in (64, 1400)}
    assert len(found) == 8 and not {one["state"] for one in found} & {"open", "failed"}
    assert resumed.json["complete"] and resumed.json["estimates"] == []
    # What was measured before the interruption is part of it, and was not measured again.
    assert done >= 5 and len(trials(run)) == sum(one["trials"] for one in found) / 2
    shown = lab.run("report", "run")
    assert shown.status == 0 and "loss-free rates of udp" in shown.out
    lab.assert_nothing_left(before)


@pytest.mark.guest
@pytest.mark.xdist_group("emulated")
def test_weight_1_takes_less_than_64_and_the_same_alone(lab: Lab) -> None:
    """In virtual time, so the rates are exact; neither another search beside it nor the number of
    jobs changes one."""
    study = lab.study(WEIGHTS)
    both = lab.run("run", study, "--jobs", "2", "--out", "both", "--json")
    assert both.status == 0, both.said
    one, other = both.json["loss_free"]
    assert [found["cell"]["knobs.napi_weight"] for found in (one, other)] == [1, 64]
    assert one["lower"]["rate"] < 0.95 * other["lower"]["rate"]
    assert one["unit"] == other["unit"] == "b/s (virtual)"
    only = 'factors={"knobs.napi_weight"=[1]}'
    alone = lab.run(
        "run", study, "--set", only, "--jobs", "1", "--fresh", "--json", "--out", "alone"
    )
    assert alone.status == 0, alone.said
    assert alone.json["loss_free"] == [one]
    assert_repeats(lab.work / "both", lab.work / "alone")


def test_what_cannot_be_searched_is_refused_before_anything_starts(lab: Lab) -> None:
    lab.study(HERE)
    for change, said in (
        ("search.workload=dup", "there is no workload 'dup'"),
        ("workloads.udp.protocol=tcp", "needs a capture, or a stream with protocol = 'udp'"),
        ("search.high=100K", "'low' must be below 'high'"),
    ):
        ran = lab.run("run", "study.toml", "--out", "run", "--set", change)
        assert ran.status == 2 and said in ran.said, ran.said
    shown = lab.run("run", "study.toml", "--dry-run")
    assert shown.status == 0 and "container (workloads.udp.message = 64)" in shown.out
    assert not (lab.work / "run").exists()
