"""However a run ends, nothing of it is left, and it can go on."""

from __future__ import annotations

import fcntl
import random
import re
import signal
from pathlib import Path

import pytest

from hypertare.machines.image.package import look_up
from tests.integration.lab import Lab, Started, Traces, summary, trials

pytestmark = pytest.mark.runs
END_LIMIT_S = 5.0
ANSWER = "hypertare: ending this trial; Ctrl-C again drops it"

STUDY = """
name = "ends"
question = "How does it end?"
[sut]
memory = "192M"
platforms = {platforms}
[workloads.work]
type = "command"
command = "sleep {sleep}; touch made"
[workloads.burn]
type = "burn"
duration = "100ms"
[design]
warmup = 0
min_trials = {trials}
max_trials = {trials}
blocks_per_boot = 3
precision = "0.001%"
"""


def study(lab: Lab, *platforms: str, sleep: float = 0.1, trials: int = 4) -> None:
    names = str(["native", *platforms]).replace("'", '"')
    lab.study(STUDY.format(platforms=names, sleep=sleep, trials=trials))


def begin(lab: Lab) -> Started:
    return lab.start("run", "study.toml", "--out", "run")


@pytest.mark.parametrize(
    ("number", "platform"),
    [
        pytest.param(signal.SIGINT, "guest", marks=pytest.mark.guest),
        (signal.SIGTERM, "container"),
    ],
)
def test_an_interrupted_run_ends_in_order(lab: Lab, number: signal.Signals, platform: str) -> None:
    study(lab, platform, sleep=0.5, trials=200)
    before = Traces.now()
    started = begin(lab)
    run = lab.work / "run"
    started.until_trials(run, 6)
    before.agents.update(started.agents())
    seconds = started.stop(number)
    ran = started.end()
    assert ran.status == 130, ran
    assert seconds < END_LIMIT_S * slowness(lab)
    assert platform in ran.out and f"report: {Path('run/report.html')}" in ran.out
    assert "hypertare run --resume --out run" in ran.err
    assert not summary(run)["complete"]
    assert summary(run)["ended"]
    assert len(trials(run)) >= 6
    lab.assert_nothing_left(before)


def test_ctrl_c_is_answered_at_once_and_the_trial_is_kept(lab: Lab) -> None:
    study(lab, "container", sleep=4, trials=200)
    started = begin(lab)
    run = lab.work / "run"
    started.until(lambda: lab.find(r"^sleep 4"), "a trial to be under way")
    had = len(trials(run))
    started.process.send_signal(signal.SIGINT)
    started.until(lambda: ANSWER in started.said(), "an answer")
    assert len(trials(run)) == had
    ran = started.end()
    assert ran.status == 130 and "hypertare run --resume --out run" in ran.err, ran
    *_, last = trials(run)
    assert len(trials(run)) == had + 1 and last[5] == "ok"


def test_a_second_ctrl_c_drops_the_trial(lab: Lab) -> None:
    study(lab, "container", sleep=600, trials=200)
    before = Traces.now()
    started = begin(lab)
    started.until(lambda: lab.find(r"^sleep 600"), "a trial to be under way")
    before.agents.update(started.agents())
    started.process.send_signal(signal.SIGINT)
    started.until(lambda: ANSWER in started.said(), "an answer")
    started.process.send_signal(signal.SIGINT)
    ran = started.end()
    assert ran.status == 130 and ran.seconds < 300, ran
    assert trials(lab.work / "run") == []
    lab.assert_nothing_left(before)


def test_an_interrupt_as_the_report_is_drawn_is_reported(lab: Lab) -> None:
    """All trials are there by then; that the run ended early is said nevertheless."""
    study(lab, "container", trials=2)
    started = begin(lab)
    started.until((lab.work / "run" / "summary.json").exists, "the summary to be written")
    started.stop(signal.SIGINT)
    ran = started.end()
    assert ran.status == 130, ran
    assert "hypertare: interrupted; what was measured before is kept." in ran.err


def test_an_interrupt_before_there_is_a_run_keeps_nothing_and_says_so(lab: Lab) -> None:
    """It waits for another process that fetches the kernel of its guest."""
    study(lab, "guest")
    cache = lab.home / "busy-cache"
    cache.mkdir()
    lab.env["HYPERTARE_CACHE"] = str(cache)
    (image,) = re.findall(r"linux-image-\d[\w.+~-]*", look_up("linux-image-amd64").depends)
    place = cache / "locks" / "packages" / look_up(image).key
    place.parent.mkdir(parents=True)
    with place.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        started = begin(lab)
        started.until(lambda: "waiting" in started.said(), "it to wait")
        started.process.send_signal(signal.SIGINT)
        ran = started.end()
    assert ran.status == 130, ran
    assert "interrupted before anything was measured, so nothing is kept" in ran.err
    assert not (lab.work / "run").exists()
    again = lab.run("run", "--resume", "--out", "run")
    assert again.status == 2 and "Start it anew, without --resume" in again.err


def slowness(lab: Lab) -> float:
    """By how much this machine, with all that it is busy with, is slower than one that a report
    takes 3 s on; the end of a run is little else."""
    shown = lab.run("report", "run", "--html", "again.html")
    assert shown.status == 0
    return max(1.0, shown.seconds / 3.0)


MOMENTS = {
    "as the bench is made": lambda started, run: started.until(
        started.agents, "the agent to be started"
    ),
    "while the guest boots": lambda started, run: started.until_guest(),
    "in a trial": lambda started, run: started.until_trials(run, 1),
    "after some trials": lambda started, run: started.until_trials(run, 5),
}


@pytest.mark.guest
@pytest.mark.parametrize("moment", MOMENTS)
def test_nothing_is_left_of_a_killed_run_and_it_goes_on(lab: Lab, moment: str) -> None:
    study(lab, "guest", trials=3)
    before = Traces.now()
    started = begin(lab)
    run = lab.work / "run"
    MOMENTS[moment](started, run)
    before.agents.update(started.agents())
    started.stop(signal.SIGKILL)
    lab.assert_nothing_left(before)
    assert_goes_on(lab, run)
    lab.assert_nothing_left(before)


@pytest.mark.parametrize("seed", range(3))
def test_killed_at_any_moment(lab: Lab, seed: int) -> None:
    """Again and again, after a random number of trials, until it is complete."""
    study(lab, "container", sleep=0.02, trials=6)
    chance = random.Random(seed)
    before = Traces.now()
    run = lab.work / "run"
    started = begin(lab)
    for _ in range(2):
        # Anywhere in the trial that follows, or between trials.
        started.until_trials(run, len(trials(run)) + chance.randint(1, 3))
        before.agents.update(started.agents())
        kept = trials(run)
        started.stop(signal.SIGKILL)
        lab.assert_nothing_left(before)
        assert trials(run)[: len(kept)] == kept
        started = lab.start("run", "--resume", "--out", "run")
    assert started.end().status == 0
    assert_complete(run)
    lab.assert_nothing_left(before)


def assert_goes_on(lab: Lab, run: Path) -> None:
    kept = trials(run)
    ran = lab.run("run", "--resume", "--out", "run")
    assert ran.status == 0, ran
    assert trials(run)[: len(kept)] == kept
    assert_complete(run)


def assert_complete(run: Path) -> None:
    """Trials are numbered through, and every platform has them in every cell."""
    done = trials(run)
    assert [trial[0] for trial in done] == list(range(len(done)))
    assert {trial[5] for trial in done} == {"ok"}
    assert summary(run)["complete"]
    assert (run / "report.html").is_file()


def test_the_host_agent_is_killed(lab: Lab) -> None:
    study(lab, "container", trials=50)
    before = Traces.now()
    started = begin(lab)
    run = lab.work / "run"
    started.until_trials(run, 3)
    before.agents.update(started.agents())
    (agent,) = started.agents()
    lab.kill(agent)
    ran = started.end()
    assert ran.status == 1, ran
    assert "the agent ended" in ran.err
    assert "hypertare run --resume --out run" in ran.err
    assert len(trials(run)) >= 3
    assert not lab.processes()
    lab.assert_nothing_left(before)


def test_two_runs_at_once_do_not_disturb_each_other(lab: Lab) -> None:
    """Also not when both begin at the same moment and name their directories themselves."""
    study(lab, "container", trials=3)
    before = Traces.now()
    both = [lab.start("run", "study.toml", "--seed", str(seed)) for seed in (1, 2)]
    for started in both:
        ran = started.end()
        assert ran.status == 0, ran
    runs = list((lab.work / "hypertare-runs").iterdir())
    assert len(runs) == 2
    for run in runs:
        assert_complete(run)
    assert {summary(run)["seed"] for run in runs} == {1, 2}
    lab.assert_nothing_left(before)


def test_a_run_that_is_being_written_is_not_resumed(lab: Lab) -> None:
    study(lab, "container", trials=50)
    started = begin(lab)
    started.until_trials(lab.work / "run", 1)
    ran = lab.run("run", "--resume", "--out", "run")
    assert ran.status == 2
    assert "Another hypertare is writing to" in ran.err
    read = lab.run("report", "run", "--format", "csv")
    assert read.status == 0
    started.stop(signal.SIGTERM)
    assert started.end().status == 130
