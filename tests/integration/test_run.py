"""`hypertare run` and what is done with a run: report, compare, studies, doctor, image."""

from __future__ import annotations

import io
import json
from dataclasses import dataclass
from pathlib import Path

import polars
import pytest

from tests.integration.lab import Lab, Ran, statuses, summary, trials

pytestmark = pytest.mark.runs

PATHS = """
name = "paths"
question = "What does each path cost?"
[sut]
memory = "192M"
[workloads.tcp-transmit]
type = "stream"
duration = "150ms"
omit = "50ms"
interval = "50ms"
[workloads.tcp-receive]
type = "stream"
direction = "receive"
duration = "150ms"
omit = "50ms"
[workloads.udp-receive]
type = "stream"
protocol = "udp"
direction = "receive"
rate = "20M"
duration = "500ms"
omit = "50ms"
[workloads.rtt]
type = "ping"
duration = "150ms"
[workloads.burn]
type = "burn"
duration = "100ms"
[design]
warmup = 0
min_trials = 2
max_trials = 2
precision = "90%"
"""

PACED = """
name = "paced"
question = "How much arrives of what is offered?"
[sut]
platforms = ["native", "container"]
[workloads.udp]
type = "stream"
protocol = "udp"
rate = "20M"
duration = "100ms"
omit = "20ms"
[workloads.burn]
type = "burn"
duration = "200ms"
[design]
warmup = 1
min_trials = 4
max_trials = 9
precision = "50%"
[quick]
"design.max_trials" = 4
"design.warmup" = 0
"""


@dataclass(frozen=True)
class Done:
    lab: Lab
    ran: Ran
    run: Path


@pytest.fixture(scope="module")
def paths(shared: Lab) -> Done:
    shared.study(PATHS, "paths.toml")
    ran = shared.run("run", "paths.toml", "--out", shared.home / "paths")
    return Done(shared, ran, shared.home / "paths")


@pytest.fixture(scope="module")
def paced(shared: Lab) -> Done:
    shared.study(PACED, "paced.toml")
    run = shared.home / "paced"
    return Done(shared, shared.run("run", "paced.toml", "--quick", "--json", "--out", run), run)


@pytest.mark.guest
@pytest.mark.parametrize("platform", ["native", "container", "guest"])
@pytest.mark.parametrize(
    ("workload", "response"),
    [
        ("tcp-transmit", "goodput"),
        ("tcp-receive", "goodput"),
        ("udp-receive", "goodput"),
        ("udp-receive", "loss"),
        ("rtt", "rtt_p50"),
        ("burn", "work_rate"),
    ],
)
def test_every_path_is_measured_on_every_platform(
    paths: Done, platform: str, workload: str, response: str
) -> None:
    assert paths.ran.status == 0, paths.ran
    # On a machine that is busy with other things a guest may not be let run for a whole trial.
    assert "ok" in statuses(paths.run, platform, workload)
    found = [
        estimate
        for estimate in summary(paths.run)["estimates"]
        if (estimate["platform"], estimate["response"]) == (platform, response)
        and estimate["cell"]["workload"] == workload
    ]
    assert len(found) == 1
    assert found[0]["n"] >= 2
    assert found[0]["estimate"] > 0 or response == "loss"


@pytest.mark.guest
def test_the_run_directory_is_whole(paths: Done) -> None:
    names = sorted(path.name for path in paths.run.iterdir())
    assert names == ["report.html", "run.sqlite", "summary.json"]
    assert summary(paths.run)["complete"]
    assert f"report: {paths.run / 'report.html'}" in paths.ran.out


def test_quick_and_json(paced: Done) -> None:
    assert paced.ran.status == 0, paced.ran
    assert paced.ran.json == summary(paced.run)
    assert {trial[4] for trial in trials(paced.run)} == {"measured"}
    assert len(trials(paced.run)) == 16


def test_the_same_seed_gives_the_same_order(paced: Done, lab: Lab) -> None:
    """As planned and as it ran."""
    lab.study(PACED)
    argv = ("run", "study.toml", "--quick", "--dry-run", "--seed")
    one, again, other = (lab.run(*argv, seed).out for seed in ("1", "1", "2"))
    assert one == again != other
    first = [trial for trial in trials(paced.run) if trial[1] == 0]
    assert f"{first[0][3]}: {', '.join(trial[2] for trial in first)}" in one


def test_a_dry_run_starts_nothing(lab: Lab) -> None:
    lab.study(PATHS)
    ran = lab.run("run", "study.toml", "--dry-run", HYPERTARE_AGENT="/there/is/none", PATH="/bin")
    assert ran.status == 0, ran
    assert "seed 1" in ran.out and "expected" in ran.out and "rtt" in ran.out
    assert [path.name for path in lab.work.iterdir()] == ["study.toml"]


@pytest.mark.parametrize("format", ["table", "json", "csv", "markdown", "parquet"])
def test_every_format_of_the_report(paced: Done, format: str) -> None:
    started = paced.lab.start("report", paced.run, "--format", format)
    ran = started.end()
    assert ran.status == 0, ran
    if format == "json":
        assert ran.json == summary(paced.run)
    elif format == "csv":
        table = polars.read_csv(io.StringIO(ran.out), infer_schema_length=None)
        assert set(table["platform"]) == {"native", "container"}
    elif format == "parquet":
        table = polars.read_parquet(io.BytesIO(started.output))
        assert set(table["platform"]) == {"native", "container"}
    else:
        assert "goodput" in ran.out and "container" in ran.out


def test_compare_says_what_got_worse(paced: Done) -> None:
    lab = paced.lab
    worse = lab.home / "worse"
    setting = ("--set", "workloads.burn.share=10%")
    ran = lab.run("run", "paced.toml", "--quick", *setting, "--out", worse)
    assert ran.status == 0, ran
    same = lab.run("compare", paced.run, paced.run)
    assert same.status == 0, same
    found = lab.run("compare", paced.run, worse, "--json", "--on", "native", "--on", "container")
    # Beside other tests what those took of the CPUs may be all of it: then nobody knows.
    assert found.status in (4, 6), found
    assert ("got worse by more than 1 %" if found.status == 4 else "could not be seen") in found.err
    # One default for what matters, said by both.
    assert found.json["threshold"] == summary(paced.run)["threshold"] == 0.01
    changes = {
        change["platform"]: change
        for change in found.json["changes"]
        if change["response"] == "work_rate" and change["of"] == "value"
    }
    # Where others' work makes a platform's few trials too wide, nothing is shown of that one.
    directions = {changes[platform]["direction"] for platform in ("native", "container")}
    assert directions & {"worse", "undecided"} and "better" not in directions
    assert changes["native"]["ratio"] < 0.5
    better = lab.run("compare", worse, paced.run, "--threshold", "50%")
    assert "burn" in better.out


def test_a_run_that_is_complete_has_nothing_to_resume(paced: Done) -> None:
    before = trials(paced.run)
    ran = paced.lab.run("run", "--resume", "--out", paced.run)
    assert ran.status == 0, ran
    assert trials(paced.run) == before


@pytest.mark.parametrize("change", [("--seed", "2"), ("--set", "sut.cpus=2"), ("--quick",)])
def test_resume_takes_no_changes(paced: Done, change: tuple[str, ...]) -> None:
    ran = paced.lab.run("run", "--resume", "--out", paced.run, *change)
    assert ran.status == 2
    assert change[0] in ran.err


def test_a_run_s_file_is_not_its_directory(paced: Done) -> None:
    ran = paced.lab.run("run", "--resume", "--out", paced.run / "run.sqlite")
    assert ran.status == 2 and "is a file" in ran.said and f"--out {paced.run}" in ran.said, ran


def test_resume_of_another_study_is_refused(paced: Done) -> None:
    ran = paced.lab.run("run", "first-look", "--resume", "--out", paced.run)
    assert ran.status == 2
    assert "another study" in ran.err


def test_runs_in_the_work_directory_are_no_part_of_the_work(lab: Lab) -> None:
    """Neither earlier ones, whatever is in them, nor the one under way: else each trial copied them."""
    few = ("--on", "native,container", "--warmup", "0", "--min-trials", "2", "--max-trials", "2")
    first = lab.run("weigh", *few, "--out", "hypertare-runs/first", "--", "true")
    assert first.status == 0, first
    with (lab.work / "hypertare-runs" / "first" / "large").open("wb") as file:
        file.truncate(1 << 40)
    seen = 'test -d hypertare-runs && test -z "$(ls hypertare-runs)"'
    second = lab.run("weigh", *few, "--out", "hypertare-runs/second", "--", "sh", "-c", seen)
    assert second.status == 0, second
    for platform in ("native", "container"):
        assert statuses(lab.work / "hypertare-runs" / "second", platform, "command") == {"ok"}


def test_studies(lab: Lab) -> None:
    listed = lab.run("studies", "--json")
    assert "first-look" in [study["name"] for study in listed.json]
    assert "first-look" in lab.run("studies").out
    shown = lab.run("studies", "show", "first-look")
    lab.study(shown.out.replace('workdir = "first-look"', 'workdir = "."'))
    assert lab.run("run", "study.toml", "--dry-run").status == 0


def test_doctor(lab: Lab) -> None:
    ran = lab.run("doctor", "--json")
    assert ran.status in (0, 3)
    assert ran.json["verdict"]
    assert {finding["status"] for finding in ran.json["findings"]} <= {"ok", "info", "warn", "bad"}
    assert all(f["do"] for f in ran.json["findings"] if f["status"] == "bad")
    assert (ran.status == 3) == any(f["status"] == "bad" for f in ran.json["findings"])


def keys(listed: Ran) -> set[tuple[str, str]]:
    return {(entry["kind"], entry["key"]) for entry in listed.json}


def test_the_image_and_its_cache(lab: Lab) -> None:
    built = lab.run("image", "build", "--shell")
    assert built.status == 0, built
    lines = dict(line.split("=", 1) for line in built.out.splitlines())
    assert all(Path(lines[f"HYPERTARE_{name}"]).is_file() for name in ("KERNEL", "INITRAMFS"))
    listed = lab.run("image", "list", "--json")
    assert lines["HYPERTARE_KERNEL"] in [
        str(path) for entry in json.loads(listed.out) for path in Path(entry["path"]).iterdir()
    ]
    assert "would be freed" in lab.run("image", "gc", "--all", "--dry-run").out
    # Other tests may look at it meanwhile, and add to it.
    assert keys(listed) <= keys(lab.run("image", "list", "--json"))
