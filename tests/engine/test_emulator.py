"""What virtual time is made with, where the emulator can be had and where it cannot."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from hypertare.base.errors import MachineError
from hypertare.design.planner import MachineResources
from hypertare.engine.prepare import Prepared, prepare
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


def on(built: Any) -> MachineResources:
    return MachineResources((0,), "tcg", {}, {}, emulator=built)


def prepared(more: str = "", text: str = TEXT) -> Prepared:
    return prepare(StudyFile(text + more, "tiny.toml"), 1)


def said_of(built: Any, more: str = "", text: str = TEXT) -> list[str]:
    return emulated.RUNNER.warnings(prepared(more, text), on(built))


def choose(more: str, monkeypatch: pytest.MonkeyPatch, built: Any) -> Any:
    def build(_: object) -> Any:
        if built is None:
            raise MachineError("This host has no gcc.", "apt-get install gcc")
        return built

    monkeypatch.setattr(emulated.emulator, "build", build)
    return emulated._emulator(prepared(more), lambda _: None)


@pytest.mark.parametrize("more", ["", "[sut]\ncpus = 8", "[factors]\n'sut.cpus' = [1, 2]"])
def test_all_of_virtual_time_is_its(monkeypatch: pytest.MonkeyPatch, more: str) -> None:
    assert choose(more, monkeypatch, BUILT) == BUILT
    assert said_of(BUILT, more) == []
    assert emulated._of_ours(on(BUILT)) == ", hypertare's emulator"


def test_where_it_cannot_be_had_one_cpu_is_the_distributions(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert choose("", monkeypatch, None) is None
    (warning,) = said_of(None)
    assert "distribution's QEMU" in warning and "hypertare image build emulator" in warning
    assert emulated._of_ours(on(None)) == ""


def test_by_the_wall_clock_it_is_not_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(emulated.emulator, "build", None)
    text = TEXT.replace("machine =", "clock = 'wall'\nmachine =")
    assert emulated._emulator(prepared(text=text), lambda _: None) is None
    assert said_of(None, text=text) == []


@pytest.mark.parametrize("more", ["[sut]\ncpus = 2", "[factors]\n'sut.cpus' = [1, 2]"])
def test_several_cpus_are_refused_there(monkeypatch: pytest.MonkeyPatch, more: str) -> None:
    with pytest.raises(MachineError) as caught:
        choose(more, monkeypatch, None)
    assert "several CPUs need hypertare's own emulator" in caught.value.what
    assert "no gcc" in caught.value.what and caught.value.do == "apt-get install gcc"
