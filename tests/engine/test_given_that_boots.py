"""A machine that was started for a run is waited for; one that refuses for good is not."""

from __future__ import annotations

from typing import cast

import pytest

from hypertare.base.errors import MachineError
from hypertare.engine.runners import local
from hypertare.machines.host.given import GivenMachines
from hypertare.study.given import GivenMachine


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
