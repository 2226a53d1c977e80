"""What a look at a machine that was there before finds, and for how long it is believed."""

from __future__ import annotations

from pathlib import Path

import pytest

from hypertare.base.errors import MachineError
from hypertare.machines.host.given import GivenMachines
from hypertare.machines.reach import SSH

REACH = ("ssh", "vm")
USUAL = 'case "$2" in --look|--put-back) cat "$HOME/changed" 2>/dev/null;; esac; exit 0'


class There:
    """A home elsewhere with programs of its own; a shell of this host runs the last word of an ssh."""

    def __init__(self, place: Path) -> None:
        self.home = place / "home"
        (self.home / "bin").mkdir(parents=True)
        self.agent = place / "agent"
        self.looks = place / "looks"
        self.ssh = place / "ssh"
        self.ssh.write_text(
            f"#!/bin/sh\necho >> {self.looks}\nfor last; do :; done\n"
            f'HOME={self.home} PATH={self.home}/bin:$PATH exec /bin/sh -c "$last"\n'
        )
        self.ssh.chmod(0o755)
        self.is_agent(USUAL)
        self.program("nproc", "echo 2")
        self.program("id", "echo 0")

    def is_agent(self, text: str) -> None:
        self.agent.write_text(f"#!/bin/sh\n{text}\n")
        self.agent.chmod(0o755)

    def program(self, name: str, text: str) -> None:
        file = self.home / "bin" / name
        file.write_text(f"#!/bin/sh\n{text}\n")
        file.chmod(0o755)

    def connections(self) -> int:
        return len(self.looks.read_text().splitlines())


@pytest.fixture
def there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> There:
    one = There(tmp_path)
    monkeypatch.setenv(SSH, str(one.ssh))
    monkeypatch.setattr(GivenMachines, "_known", {})
    return one


def test_what_was_not_looked_at_is_not_believed(there: There) -> None:
    def look(cpus: int, **more: bool) -> int:
        before = there.connections() if there.looks.exists() else 0
        GivenMachines(there.agent).look(REACH, cpus, **more)
        return there.connections() - before

    # With a second one the agent is brought, with a third what is left there is looked for.
    assert look(1) == 3
    assert look(1) == 0
    # That it has one CPU says nothing of two, nor of its settings.
    assert look(2) == 1
    assert look(1) == look(2) == 0
    assert look(2, settings=True) == 1
    assert look(1, settings=True) == 0
    with pytest.raises(MachineError, match="3 CPUs are asked for"):
        look(3)


def test_settings_that_cannot_be_changed_are_said_before_anything_begins(there: There) -> None:
    there.program("id", "echo 1000")
    there.program("sudo", "exit 1")
    machines = GivenMachines(there.agent)
    with pytest.raises(MachineError, match="its user is not root there, and sudo asks"):
        machines.look(REACH, 1, settings=True)
    assert machines.look(REACH, 1) is None
    there.program("sudo", '[ "$1" = -n ] || exit 1; shift; exec "$@"')
    assert machines.look(REACH, 1, settings=True) is None


def test_what_an_earlier_run_has_left_is_shown(there: There) -> None:
    (there.home / "changed").write_text("dev_weight was 64, \x1b[2Jnow it is 1\n")
    machines = GivenMachines(there.agent)
    said = machines.look(REACH, 1)
    assert said is not None and "(dev_weight was 64, [2Jnow it is 1): a run with" in said
    said = machines.look(REACH, 1, settings=True)
    assert said is not None and "its settings were put back: dev_weight was 64" in said


def test_what_cannot_be_put_back_ends_the_run_before_it_begins(there: There) -> None:
    there.is_agent('[ "$2" != --put-back ] || { echo "it is not there any more" >&2; exit 1; }')
    with pytest.raises(MachineError, match="it is not there any more"):
        GivenMachines(there.agent).look(REACH, 1, settings=True)
