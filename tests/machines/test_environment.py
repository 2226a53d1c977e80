"""What a run was made with."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from hypertare.machines import asked, environment


def test_the_source_that_runs_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asked, "CHECKOUT", tmp_path)
    agent = tmp_path / "agent"
    assert "commit" not in environment.versions(agent)
    git = ("git", "-C", str(tmp_path), "-c", "user.name=A", "-c", "user.email=a@example.org")
    (tmp_path / "file").write_text("one")
    for words in (("init", "-q"), ("add", "file"), ("commit", "-q", "-m", "One")):
        subprocess.run([*git, *words], check=True)
    said = subprocess.run(
        [*git, "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=True
    )
    commit = said.stdout.strip()
    assert environment.versions(agent)["commit"] == commit
    (tmp_path / "file").write_text("two")
    assert environment.versions(agent)["commit"] == f"{commit}+"


def test_the_emulator_of_virtual_time_is_named(tmp_path: Path) -> None:
    class Made:
        program, key, content = tmp_path / "qemu", "a" * 24, "b" * 24

    agent = tmp_path / "agent"
    assert environment.versions(agent, emulator=Made())["emulator"] == "b" * 24
    assert "emulator" not in environment.versions(agent)
