"""What of this host `run`, `weigh` and `tune` may change: one mechanism, the same options."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests import commands

ROOT = os.geteuid() == 0
STUDY = """
name = "memory"
question = "Which pages?"
[sut]
platforms = ["native", "guest"]
memory = "192M"
[workloads.work]
type = "burn"
[factors]
"sut.pages" = ["4K", "2M"]
[tune]
"""


def ask(folder: Path, *words: str) -> tuple[int, str]:
    done = commands.run(words[0], "--dry-run", *words[1:], folder=folder)
    return done.returncode, " ".join((done.stdout + done.stderr).split())


def words_of(verb: str, folder: Path, *options: str) -> tuple[str, ...]:
    if verb == "weigh":
        return (verb, "--pages", "4K,2M", *options, "--", "true")
    (folder / "study.toml").write_text(STUDY)
    return (verb, "study.toml", *options)


@pytest.mark.parametrize("verb", ["run", "weigh", "tune"])
def test_huge_pages_may_be_set_aside(verb: str, tmp_path: Path) -> None:
    status, said = ask(tmp_path, *words_of(verb, tmp_path, "--allow-huge-pages"))
    if not ROOT:
        assert status == 3 and "only root may do" in said
        return
    assert status == 0, said
    assert "4K" in said and "2M" in said, said


@pytest.mark.parametrize("verb", ["run", "weigh", "tune"])
def test_a_permission_that_nothing_needs_is_refused(verb: str, tmp_path: Path) -> None:
    status, said = ask(tmp_path, *words_of(verb, tmp_path, "--allow-module-reload"))
    assert status == 2 and "--allow-module-reload has nothing to do" in said
    assert ("set --paging to nested or shadow" in said) == (verb == "weigh"), said
    assert "Traceback" not in said


def test_weigh_names_its_own_options(tmp_path: Path) -> None:
    status, said = ask(tmp_path, "weigh", "--pages", "1G", "--", "true")
    assert status == 2 and "--pages: '1G' is not allowed here" in said
    status, said = ask(tmp_path, "weigh", "--paging", "nested,both", "--", "true")
    assert status == 2 and "'both' is not allowed" in said
