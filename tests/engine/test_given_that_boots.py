"""A machine that was started for a run is waited for; one that refuses for good is not, and all that do are
named.
"""

from __future__ import annotations

from pathlib import Path
from typing import cast

import pytest

from hypertare.base.errors import MachineError
from hypertare.engine.runners import local
from hypertare.machines.host.given import GivenMachines
from hypertare.machines.reach import SSH
from hypertare.study import StudyFile
from hypertare.study.machines import GivenMachine

STUDY = """
name = "given"
question = "?"
[sut]
platforms = ["native", "given"]
[given.a]
reach = "ssh a"
[given.b]
reach = "ssh b"
[given.c]
reach = "ssh c"
domain = "c"
start = true
[factors]
"sut.given" = ["a", "b", "c"]
[workloads.work]
type = "burn"
"""


class Booting:
    """Answers after some refusals."""

    def __init__(self, *refusals: str) -> None:
        self.refusals = list(refusals)
        self.asked = 0

    def look(
        self, reach: tuple[str, ...], cpus: int, address: str | None, *, settings: bool
    ) -> None:
        assert (reach, cpus, address, settings) == (("ssh", "vm"), 2, None, False)
        self.asked += 1
        if self.refusals:
            raise MachineError(self.refusals.pop(0))


@pytest.fixture(autouse=True)
def no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local, "_AGAIN_S", 0.0)


def look(machines: Booting, patience_s: float) -> None:
    local._look(cast(GivenMachines, machines), GivenMachine(reach="ssh vm"), 2, patience_s)


def test_a_machine_that_boots_is_asked_again() -> None:
    booting = Booting("connect to host vm port 22: Connection refused", "No route to host")
    look(booting, 60.0)
    assert booting.asked == 3


@pytest.mark.parametrize(
    ("patience_s", "words"), [(0.0, "Connection refused"), (60.0, "its host key is not known")]
)
def test_others_are_not(patience_s: float, words: str) -> None:
    booting = Booting(words, words)
    with pytest.raises(MachineError, match=words):
        look(booting, patience_s)
    assert booting.asked == 1


def test_all_that_cannot_be_reached_are_named_and_none_is_started_in_vain(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ssh = tmp_path / "ssh"
    ssh.write_text(
        """#!/bin/sh
for word; do [ "$word" = a ] && refused='Permission denied (publickey).'; done
echo "${refused:-connect to host port 22: Connection refused}" >&2
exit 255
"""
    )
    ssh.chmod(0o755)
    monkeypatch.setenv(SSH, str(ssh))
    agent = tmp_path / "agent"
    agent.write_text("an agent")
    monkeypatch.setattr(local.paths, "agent_binary", lambda: agent)

    def start(connect: str, domain: str) -> bool:
        raise AssertionError(f"{domain} is started")

    monkeypatch.setattr(local.libvirt, "start", start)
    with pytest.raises(MachineError) as refused:
        local._look_at_given(StudyFile(STUDY, "given.toml").study(), lambda _: None)
    said = str(refused.value)
    assert "ssh a: it lets nobody in without a password." in said and "ssh a true" in said
    assert "ssh b: connect to host port 22: Connection refused" in said and "ssh b true" in said
    assert "ssh c" not in said
