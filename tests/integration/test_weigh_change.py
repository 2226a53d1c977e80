"""`tools/weigh-change`, which the GitHub Action runs: in a git repository, with real weighings."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.tools import loaded

pytestmark = pytest.mark.runs

ROOT = Path(__file__).resolve().parents[2]
TOOL = ROOT / "tools" / "weigh-change"
ONCE, TWICE = "sort -n n >/dev/null", "sort -n n >/dev/null; sort -n n >/dev/null"


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """Its last commit sorts twice what the one before sorts once."""
    (tmp_path / "n").write_text("\n".join(str(n * 7919 % 200_003) for n in range(200_000)))
    _git(tmp_path, "init", "-q", ".")
    for script in (ONCE, TWICE):
        (tmp_path / "work.sh").write_text(script)
        _git(tmp_path, "add", ".")
        _git(tmp_path, "-c", "user.name=a", "-c", "user.email=a@b.example", "commit", "-qm", "on")
    return tmp_path


def _git(folder: Path, *words: str) -> None:
    subprocess.run(["git", *words], cwd=folder, check=True)


def _weigh_change(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    program = str(Path(sys.executable).with_name("hypertare"))
    options = ["--hypertare", program, "--on", "native", "--options=--quick"]
    return subprocess.run(
        [TOOL, *options, *words],
        cwd=folder,
        capture_output=True,
        text=True,
        env={**os.environ, "XDG_STATE_HOME": str(folder / "state")},
    )


def test_twice_the_work_is_worse(repository: Path) -> None:
    markdown = repository / "out.md"
    done = _weigh_change(repository, "--markdown", str(markdown), "--", "bash", "work.sh")
    assert done.returncode == 4, done.stderr
    assert "bash work.sh is worse on native" in done.stdout.splitlines()[-1]
    text = markdown.read_text()
    assert text.startswith("### bash work.sh is worse on native") and "| native |" in text


def test_less_work_is_no_worse(repository: Path) -> None:
    _git(repository, "tag", "twice")
    _git(repository, "checkout", "-q", "HEAD^")
    done = _weigh_change(repository, "--base", "twice", "--", "bash", "work.sh")
    assert done.returncode == 0, done.stderr
    assert "is no worse" in done.stdout.splitlines()[-1]
    # The report stands there: no directory that is gone is named.
    assert "| native |" in done.stdout and "run.sqlite" not in done.stdout


@pytest.mark.parametrize(
    ("changes", "reported", "status"),
    [
        ([("native", "costs", 0.2), ("guest", "undecided", 0.4)], "worse on native", 4),
        (
            [("native", "no difference shown", 0.031), ("guest", "undecided", 0.4)],
            "undecided on guest, too few trials to say (--options '--time-limit 10m')",
            6,
        ),
        ([], "undecided, too few trials to say (--options '--time-limit 10m')", 6),
        (
            [("native", "no difference shown", 0.031), ("guest", "gains", -0.1)],
            "no worse, or by 3.1 % at most",
            0,
        ),
        ([("native", "gains", -0.1)], "no worse", 0),
    ],
)
def test_what_could_not_be_seen_has_a_word_and_a_status_of_its_own(
    changes: list[tuple[str, str, float]], reported: str, status: int
) -> None:
    tool = loaded("weigh-change")
    levels = [
        {"response": "elapsed", "platform": platform, "verdict": verdict, "doubt": None}
        | {"cost_high": high}
        for platform, verdict, high in changes
    ]
    assert tool._judged(levels) == (reported, status)


def test_what_cannot_be_weighed_says_why(repository: Path) -> None:
    done = _weigh_change(repository, "--base", "nowhere", "--", "true")
    assert done.returncode == 2 and "there is no commit nowhere: fetch it" in done.stderr
    done = _weigh_change(repository, "--prepare", "exit 3", "--", "true")
    assert done.returncode == 2 and "`exit 3` ended with status 3 before the change" in done.stderr
    done = _weigh_change(repository, "--", "false")
    assert done.returncode == 2 and "hypertare weigh ended with status" in done.stderr


def test_the_action_is_whole() -> None:
    """Its scripts are bash, name inputs that there are, and options that the tool has."""
    action = yaml.safe_load((ROOT / "action.yml").read_text())
    steps = action["runs"]["steps"]
    scripts = [step["run"] for step in steps if "run" in step]
    for script in scripts:
        subprocess.run(["bash", "-n"], input=script, text=True, check=True)
    text = (ROOT / "action.yml").read_text()
    used = set(re.findall(r"inputs\.(\w+)", text))
    assert used == set(action["inputs"])
    known = subprocess.run([TOOL, "--help"], capture_output=True, text=True).stdout
    (script,) = [step["run"] for step in steps if step["name"] == "Weigh"]
    options = set(re.findall(r"(?<= )--[a-z]+", script))
    assert options and all(option in known for option in options)
