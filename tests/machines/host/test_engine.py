"""The user's engine, made up: what is said where it does not work, and whose containers are removed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from hypertare.base.errors import MachineError
from hypertare.machines.host import engine

ALIVE = f"hypertare-{os.getpid()}-{engine._began(os.getpid())}"
DEAD = f"hypertare-{os.getpid()}-1"


class Engines:
    """Programs called as engines are, which do what the test says and note what they were asked."""

    def __init__(self, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.place = place
        self.log = place / "asked"
        monkeypatch.setenv("PATH", str(place))
        monkeypatch.setenv("HYPERTARE_CACHE", str(place / "cache"))

    def have(self, name: str, script: str) -> None:
        program = self.place / name
        program.write_text(f'#!/bin/sh\necho "$*" >>{self.log}\n{script}\n')
        program.chmod(0o755)

    @property
    def asked(self) -> list[str]:
        return self.log.read_text().splitlines() if self.log.exists() else []


@pytest.fixture
def engines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Engines:
    return Engines(tmp_path, monkeypatch)


NO_DAEMON = 'echo "Cannot connect to the Docker daemon" >&2; exit 1'


def test_without_an_engine_it_says_why_of_each_and_what_to_do(engines: Engines) -> None:
    engines.have("docker", NO_DAEMON)
    with pytest.raises(MachineError) as refused:
        engine.find("auto", "debian:12", lambda _: None)
    assert "podman is not installed" in refused.value.what
    assert "Cannot connect to the Docker daemon" in refused.value.what
    assert "apt-get install podman" in str(refused.value.do)


def test_an_image_that_is_not_there_is_not_pulled(engines: Engines) -> None:
    engines.have("docker", NO_DAEMON)
    engines.have(
        "podman",
        'case "$1" in version) echo 4.3.1 ;; *) echo "no such image" >&2; exit 125 ;; esac',
    )
    with pytest.raises(MachineError) as refused:
        engine.find("auto", "debian:12", lambda _: None)
    assert "podman has no image debian:12: no such image" in refused.value.what
    assert "podman pull debian:12" in str(refused.value.do)
    assert not any("pull" in line or "run" in line for line in engines.asked)


def test_the_next_run_removes_what_dead_ones_left_and_nobody_elses(engines: Engines) -> None:
    names = f"{ALIVE}.1\n{DEAD}.1\n{DEAD}.2\nhypertare-of-a-user\nmine"
    engines.have("podman", f'if [ "$1" = ps ]; then echo "{names}"; fi')
    engine.sweep("podman")
    assert engines.asked[1:] == [f"rm --force {DEAD}.1 {DEAD}.2"]


def test_a_guard_removes_its_runs_containers_and_pipes_only(engines: Engines) -> None:
    engines.have("podman", f'if [ "$1" = ps ]; then echo "{ALIVE}.1\n{ALIVE}9.1\n{DEAD}.1"; fi')
    pipes = engines.place / "hypertare-pipes"
    (pipes / "1").mkdir(parents=True)
    engine.clean_up("podman", ALIVE, str(pipes))
    assert {line for line in engines.asked if line.startswith("rm")} == {f"rm --force {ALIVE}.1"}
    assert not pipes.exists()
