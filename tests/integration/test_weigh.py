"""`hypertare weigh`: one real command, on all platforms, with one and with two CPUs."""

from __future__ import annotations

import json
import os
import resource
from dataclasses import dataclass
from pathlib import Path

import jsonschema
import pytest

from tests.integration.lab import Lab, Ran, statuses, summary, trials

pytestmark = pytest.mark.guest
SCHEMA = Path(__file__).parents[2] / "schema" / "summary.schema.json"

SOFT, HARD = ("unlimited" if n < 0 else n for n in resource.getrlimit(resource.RLIMIT_NOFILE))
COMMAND = f"""
set -e
test "$(uname -n)" = "{os.uname().nodename}"
test "$(ulimit -S -n) $(ulimit -H -n)" = "{SOFT} {HARD}"
test "$(cat input)" = first
test "$(nproc)" -le 2
test ! -e left
echo changed > input
echo left > left
echo home > "$HOME/escaped"
echo outside > /var/tmp/hypertare-escaped
echo temporary > "${{TMPDIR:-/tmp}}/temporary"
sh -c 'i=0; while [ $i -lt 2000 ]; do i=$((i+1)); done'
"""


@dataclass(frozen=True)
class Weighed:
    lab: Lab
    ran: Ran
    run: Path


@pytest.fixture(scope="module")
def weighed(shared: Lab) -> Weighed:
    (shared.work / "input").write_text("first\n")
    run = shared.home / "run"
    cpus = "1,2" if len(os.sched_getaffinity(0)) > 1 else "1"
    limits = ("--warmup", "0", "--min-trials", "2", "--max-trials", "2", "--memory", "192M")
    files = ("--json", shared.home / "s.json", "--html", shared.home / "r.html", "--out", run)
    ran = shared.run("weigh", "--cpus", cpus, *limits, *files, "--", "sh", "-c", COMMAND)
    return Weighed(shared, ran, run)


def test_the_verdict_is_printed(weighed: Weighed) -> None:
    assert weighed.ran.status == 0, weighed.ran
    said = weighed.ran.out
    assert "guest (" in said, "its accelerator stands in the answer"
    assert "n = 2 blocks" in said
    lines = said.splitlines()
    answer = next(place for place, line in enumerate(lines) if "guest (" in line)
    row = next(
        place for place, line in enumerate(lines) if line.startswith("  ") and "guest" in line
    )
    assert answer < row


def test_every_trial_succeeded_on_every_platform(weighed: Weighed) -> None:
    """The command itself checks that its work directory is as it was, in every trial."""
    assert {t[5] for t in trials(weighed.run)} == {"ok"}, trials(weighed.run)
    for platform in ("native", "container", "guest"):
        assert statuses(weighed.run, platform, "command") == {"ok"}


def test_what_it_writes_never_reaches_the_disk(weighed: Weighed) -> None:
    lab = weighed.lab
    assert (lab.work / "input").read_text() == "first\n"
    assert [path.name for path in lab.work.iterdir()] == ["input"]
    assert not (lab.home / "home" / "escaped").exists()
    assert not Path("/var/tmp/hypertare-escaped").exists()
    assert list((lab.home / "tmp").iterdir()) == []


def test_the_summary_fits_its_schema(weighed: Weighed) -> None:
    found = json.loads((weighed.lab.home / "s.json").read_text())
    jsonschema.Draft202012Validator(json.loads(SCHEMA.read_text())).validate(found)
    assert found == summary(weighed.run)
    assert found["complete"]
    elapsed = [e for e in found["estimates"] if e["response"] == "elapsed"]
    assert {e["platform"] for e in elapsed} == {"native", "container", "guest"}
    assert all(e["cost"] is not None for e in elapsed if e["platform"] == "guest")


def test_every_platform_had_as_many_cpus(weighed: Weighed) -> None:
    guests = [p["cpus"] for p in summary(weighed.run)["platforms"] if p["platform"] == "guest"]
    asked = {e["cell"].get("sut.cpus", 1) for e in summary(weighed.run)["estimates"]}
    assert set(guests) == asked


def test_the_report_is_one_file_that_needs_no_network(weighed: Weighed) -> None:
    page = (weighed.lab.home / "r.html").read_text()
    assert page.lower().startswith("<!doctype html>")
    assert 'src="http' not in page and 'href="http' not in page.split("<main")[0]
