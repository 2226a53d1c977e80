"""What virtual time is made with, where the emulator can be had and where it cannot."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from hypertare.base.errors import MachineError
from hypertare.engine.prepare import prepare
from hypertare.engine.runners import emulated
from hypertare.study import StudyFile

TEXT = """
name = "tiny"
question = "?"
machine = "emulated"
[workloads.spin]
type = "burn"
duration = "10ms"
"""
BUILT: Any = SimpleNamespace(program="/e", key="k")


def choose(more: str, monkeypatch: pytest.MonkeyPatch, built: Any) -> tuple[Any, list[str]]:
    def build(_: object) -> Any:
        if built is None:
            raise MachineError("This host has no gcc.", "apt-get install gcc")
        return built

    monkeypatch.setattr(emulated.emulator, "build", build)
    said: list[str] = []
    prepared = prepare(StudyFile(TEXT + more, "tiny.toml"), 1)
    return emulated._emulator(prepared, said.append), said


@pytest.mark.parametrize("more", ["[sut]\ncpus = 8", "[factors]\n'sut.cpus' = [1, 2]"])
def test_several_cpus_are_its(monkeypatch: pytest.MonkeyPatch, more: str) -> None:
    assert choose(more, monkeypatch, BUILT) == (BUILT, [])
    assert emulated._of_ours(SimpleNamespace(emulator=BUILT)) == ", hypertare's emulator"


def test_one_cpu_is_the_distributions(monkeypatch: pytest.MonkeyPatch) -> None:
    assert choose("", monkeypatch, None) == (None, [])
    assert emulated._of_ours(SimpleNamespace(emulator=None)) == ""


def test_by_the_wall_clock_it_is_not_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(emulated.emulator, "build", None)
    text = TEXT.replace("machine =", "clock = 'wall'\nmachine =")
    prepared = prepare(StudyFile(text, "tiny.toml"), 1)
    assert emulated._emulator(prepared, lambda _: None) is None


@pytest.mark.parametrize("more", ["[sut]\ncpus = 2", "[factors]\n'sut.cpus' = [1, 2]"])
def test_several_cpus_are_refused_there(monkeypatch: pytest.MonkeyPatch, more: str) -> None:
    with pytest.raises(MachineError) as caught:
        choose(more, monkeypatch, None)
    assert "several CPUs need hypertare's own emulator" in caught.value.what
    assert "no gcc" in caught.value.what and caught.value.do == "apt-get install gcc"
