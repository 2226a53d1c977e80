"""A tuning as a user has it: it repeats in virtual time, goes on after Ctrl-C, and says what to type."""

from __future__ import annotations

import json
import shutil
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.integration.lab import MARK, NEW_PYTHON, Lab, falsify, own_cache, trials
from tests.made_cluster import MadeCluster

VIRTUAL = """
name = "tiny"
question = "Does a tuning repeat?"
machine = "emulated"
[sut]
memory = "192M"
[workloads.work]
type = "burn"
duration = "50ms"
share = "50%"
[design]
min_trials = 2
max_trials = 2
blocks_per_boot = 4
min_boots = 1
[tune]
budget = 8
[tune.knobs]
"workloads.work.share" = ["100%"]
"""

STREAM = """
name = "buffers"
question = "Is a small socket buffer worse?"
[workloads.tcp]
type = "stream"
duration = "100ms"
omit = "20ms"
message = "1K"
[design]
min_trials = 2
max_trials = 3
blocks_per_boot = 4
min_boots = 1
precision = "50%"
[tune]
budget = 14
[tune.knobs]
"workloads.tcp.message" = ["64K"]
"knobs.mtu" = [1200]
"""


OVER = VIRTUAL.replace("[design]", '[factors]\n"sut.memory" = ["192M", "256M"]\n[design]')


def found(folder: Path) -> Any:
    return json.loads((folder / "tune.json").read_text())


def without_times(tuning: Any) -> Any:
    return {key: value for key, value in tuning.items() if key not in ("started", "ended")}


@pytest.mark.guest
def test_in_virtual_time_a_tuning_repeats_for_any_number_of_jobs_and_on_workers(lab: Lab) -> None:
    study = lab.study(VIRTUAL)
    lab.env["HYPERTARE_CACHE"] = own_cache(lab, "cache")
    with MadeCluster(lab.home / "cluster", {MARK: lab.mark}) as made:
        made.add("one")
        ran = lab.run("tune", study, "--cluster", made.address, "--out", "workers")
        assert ran.status == 0 and f"cluster: {made.address}, 1 worker" in ran.err, ran.said
        refused = lab.run("tune", study, "--cluster", made.address, "--jobs", "2")
        assert refused.status == 2 and "--jobs says how many boots this host" in refused.said
    asked = ("--jobs", "4", "--fresh", "--out", "jobs-4")
    ran = lab.run("tune", study, *asked, wrap=NEW_PYTHON)
    assert ran.status == 0, ran.said
    one, four = (found(lab.work / name) for name in ("workers", "jobs-4"))
    assert without_times(one) == without_times(four)
    assert one["trials"] <= 8
    assert one["recommendation"] == {"workloads.work.share": "100%"}
    assert one["confirmation"]["gain"] > 0.5
    assert one["clock"] == "virtual"

    page = lab.work / "again.html"
    shown = lab.run("report", "jobs-4", "--html", str(page))
    assert shown.status == 0, shown.said
    assert four["verdict"] in shown.out.replace("\n", " ")
    assert page.read_text() == (lab.work / "jobs-4" / "report.html").read_text()

    falsify(min((lab.home / "cache" / "virtual").iterdir()))
    differs = lab.run("tune", study, "--fresh")
    assert differs.status == 5, differs.said


@pytest.mark.guest
@pytest.mark.release
def test_each_level_is_tuned_and_the_law_is_confirmed_between_them(lab: Lab) -> None:
    """Whatever the memory is, a full share is best: a constant."""
    study = lab.study(OVER)
    ran = lab.run("tune", study, "--over", "sut.memory", "--out", "whole")
    assert ran.status == 0, ran.said
    whole = json.loads((lab.work / "whole" / "over.json").read_text())
    assert whole["complete"] and whole["asked"]["confirm"] == 224 << 20
    share = {"workloads.work.share": "100%"}
    assert [one["found"]["recommendation"] for one in whole["tuned"]] == [share, share]
    assert [law["law"] for law in whole["laws"] if law["preferred"]] == ["constant"]
    fresh = whole["confirmed"]["found"]
    assert fresh["recommendation"] == share and fresh["confirmation"]["gain"] > 0.5
    assert fresh["confirmation"]["search_gain"] is None and not fresh["looks"]
    assert (lab.work / "whole" / "1-sut.memory=192M" / "report.html").is_file()
    assert "workloads.work.share = w with w = 1.0 predicts best" in ran.out.replace("\n", " ")
    shown = lab.run("report", "whole", "--html", "again.html")
    assert shown.status == 0, shown.said
    assert (lab.work / "again.html").read_text() == (lab.work / "whole" / "report.html").read_text()

    taken = lab.run("tune", study, "--over", "sut.memory", "--out", "whole")
    assert taken.status == 2 and "is not empty" in taken.said
    # What it had when it was killed after the first level: it goes on, and finds the same.
    (lab.work / "whole").rename(lab.work / "half")
    for folder in ("2-sut.memory=256M", "confirm-sut.memory=234881024"):
        shutil.rmtree(lab.work / "half" / folder)
    (lab.work / "half" / "over.json").write_text(
        json.dumps({**whole, "complete": False, "tuned": [], "laws": [], "confirmed": None})
    )
    resumed = lab.run("tune", "--resume", "--out", "half")
    assert resumed.status == 0, resumed.said
    again = json.loads((lab.work / "half" / "over.json").read_text())
    assert again["laws"] == whole["laws"] and again["verdict"] == whole["verdict"]


@pytest.mark.guest
def test_a_guest_is_tuned_and_reported_what_to_type(lab: Lab) -> None:
    # Long enough that a busy host, which takes a CPU for tens of milliseconds, takes it from all alike.
    study = lab.study(STREAM.replace('"100ms"', '"400ms"'))
    ran = lab.run("tune", study, "--set", "sut.memory=256M", "--json")
    assert ran.status == 0, ran.said
    tuning = ran.json
    assert tuning["platform"] == "guest" and tuning["trials"] <= 14
    # 64 times fewer calls for the same bytes: the interval is wide, the gain is wider.
    assert tuning["confirmation"]["search_gain"] > 0.1, ran.said
    # On a busy host a trial may fail: its block is measured anew.
    duels = [ended for ended in confirmed(lab) if ended == ["ok", "ok"]]
    assert len(duels) == tuning["confirmation"]["blocks"]
    if not tuning["keep_default"]:
        assert tuning["steps"][0]["where"] in ("application", "guest")


def confirmed(lab: Lab) -> list[list[str]]:
    """How the trials of each block of the confirmation ended."""
    from hypertare.runs.store import Store

    (folder,) = (lab.work / "hypertare-runs").iterdir()
    blocks: dict[int, list[str]] = {}
    with Store.open(folder) as store:
        for trial in store.trials():
            if trial.planned.cell["tune.phase"] == "confirm":
                blocks.setdefault(trial.planned.block, []).append(trial.status)
    return list(blocks.values())


@pytest.mark.runs
def test_after_ctrl_c_it_goes_on(lab: Lab) -> None:
    study = lab.study(STREAM)
    options = ("--set", "tune.platform=container", "--budget", "24", "--out", "run")
    started = lab.start("tune", study, *options)
    started.until_trials(lab.work / "run", 6)
    started.stop(signal.SIGINT)
    ended = started.end()
    assert ended.status == 130
    assert "`hypertare tune --resume --out run` goes on" in ended.said
    before = trials(lab.work / "run")
    resumed = lab.run("tune", "--resume", "--out", "run")
    assert resumed.status == 0, resumed.said
    after = trials(lab.work / "run")
    assert after[: len(before)] == before and len(after) > len(before)
    # At most the block that was under way is measured twice.
    assert len(after) <= 24 + 8
    assert found(lab.work / "run")["trials"] <= 24


@pytest.mark.runs
def test_a_run_of_a_study_is_no_tuning(lab: Lab) -> None:
    study = lab.study(STREAM)
    ran = lab.run("run", study, "--set", 'sut.platforms=["native","container"]', "--out", "run")
    assert ran.status == 0, ran.said
    refused = lab.run("tune", "--resume", "--out", "run")
    assert refused.status == 2 and "no tuning" in refused.said
