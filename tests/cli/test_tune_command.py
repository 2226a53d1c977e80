"""`tune -- COMMAND`: knobs that a command in a guest can feel, without a study."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.cli.test_permissions import ask


def knobs_of(folder: Path, *words: str) -> dict[str, list[object]]:
    status, said = ask(folder, "tune", "--json", *words)
    assert status == 0, said
    found = json.loads(said)
    assert (found["platform"], found["workload"]) == ("guest", "command")
    return {path: knob["levels"] for path, knob in found["knobs"].items()}


def test_alone_it_feels_its_memory_and_with_a_peer_its_card(tmp_path: Path) -> None:
    alone = knobs_of(tmp_path, "--", "true")
    assert alone == {
        "sut.pages": ["default", "4K"],
        "knobs.thp.enabled": ["default", "never", "madvise"],
    }
    served = knobs_of(tmp_path, "--peer", "sleep 9", "--", "true")
    assert served.keys() > alone.keys()
    assert "vhost-user" in served["sut.datapath"] and "knobs.offloads.gro" in served


@pytest.mark.skipif(os.geteuid() != 0, reason="huge pages are root's to set aside")
def test_huge_pages_where_they_may_be_set_aside(tmp_path: Path) -> None:
    assert "2M" in knobs_of(tmp_path, "--allow-huge-pages", "--", "true")["sut.pages"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("one", "two"), "A command stands behind --: hypertare tune -- one two"),
        (("--peer", "sleep 9", "tcp-knobs"), "--peer says more of a command, and none is given"),
        (("--value", "x", "tcp-knobs"), "--value says more of a command"),
        (("--budget", "3", "--", "true"), "is too small for 2 knobs"),
        (("--", "no-such-program"), "no-such-program"),
        ((), "Which study? None was named."),
    ],
)
def test_what_cannot_be_asked(tmp_path: Path, words: tuple[str, ...], said: str) -> None:
    status, reported = ask(tmp_path, "tune", *words)
    assert status == 2 and said in reported, reported
    assert "Traceback" not in reported


def test_without_the_libraries_of_the_search_it_is_said_how_to_get_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "without").mkdir()
    (tmp_path / "without" / "sitecustomize.py").write_text(
        "import sys\nsys.modules['optuna'] = None\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "without"))
    status, said = ask(tmp_path, "tune", "tcp-knobs", "--dry-run")
    assert status == 2 and "pip install 'hypertare[tune]'" in said, said


def test_a_figure_of_its_own_is_what_is_gained(tmp_path: Path) -> None:
    words = ("--value", "ops: ([0-9]+)", "--higher-is-better", "--", "echo", "ops: 3")
    status, said = ask(tmp_path, "tune", *words)
    assert status == 0 and "for goodput (ops, machine_cpu)" in said, said
