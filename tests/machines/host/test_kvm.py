"""KVM's module: what it says, and loading it anew with everything that can go wrong on the way."""

from __future__ import annotations

from pathlib import Path

import pytest

from hypertare.base.errors import MachineError
from hypertare.base.host_files import Host
from hypertare.machines.host import kvm
from tests.machines.host.made_up import AMD, INTEL, MadeUp


def found(made: MadeUp) -> kvm.Module:
    module = kvm.find(made.host)
    assert module is not None
    return module


@pytest.mark.parametrize(
    ("name", "parameters", "paging"),
    [
        ("kvm_intel", {"ept": "Y"}, "nested"),
        ("kvm_intel", {"ept": "N"}, "shadow"),
        ("kvm_amd", {"npt": "1"}, "nested"),
        ("kvm_amd", {"npt": "0"}, "shadow"),
        ("kvm_amd", {"npt": "Y"}, "nested"),
        ("kvm_intel", {"pml": "Y"}, None),
    ],
)
def test_the_module_says_which_page_tables(
    tmp_path: Path, name: str, parameters: dict[str, str], paging: str | None
) -> None:
    made = MadeUp(tmp_path / "host", name, parameters)
    assert found(made).paging == paging


def test_without_a_module_it_says_why(tmp_path: Path) -> None:
    host = Host(root=tmp_path)
    assert kvm.find(host) is None
    assert kvm.why_missing(host) == "KVM is not loaded"
    (tmp_path / "sys/module/kvm").mkdir(parents=True)
    assert "neither kvm_intel nor kvm_amd" in kvm.why_missing(host)


@pytest.mark.parametrize(("name", "parameters"), [("kvm_intel", INTEL), ("kvm_amd", AMD)])
def test_switched_and_put_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, parameters: dict[str, str]
) -> None:
    made = MadeUp(tmp_path / "host", name, dict(parameters))
    monkeypatch.setenv("PATH", made.search_path())
    before = kvm.State.of(made.host, found(made))
    kvm.switch(made.host, found(made), "shadow")
    assert found(made).paging == "shadow"
    kvm.put_back(made.host, before)
    assert made.parameters == parameters
    parameter = kvm.PARAMETERS[name]
    assert made.reloads == [
        f"rmmod {name}",
        f"modprobe {name} {parameter}=0",
        f"rmmod {name}",
        f"modprobe {name} {parameter}={parameters[parameter]}",
    ]


def test_what_is_as_it_was_is_left_alone(made: MadeUp) -> None:
    before = kvm.State.of(made.host, found(made))
    made.use()
    kvm.put_back(made.host, before)
    assert made.calls == []


def test_what_someone_had_loaded_it_with_is_put_back_too(made: MadeUp) -> None:
    theirs = {**INTEL, "nested": "N", "ple_gap": "0"}
    made.load(theirs)
    before = kvm.State.of(made.host, found(made))
    kvm.switch(made.host, found(made), "shadow")
    kvm.put_back(made.host, before)
    assert made.parameters == theirs
    assert made.calls[-1] == "modprobe kvm_intel ept=Y nested=N ple_gap=0"


def test_a_parameter_that_does_not_come_back_is_named(made: MadeUp) -> None:
    made.load({**INTEL, "ple_gap": "0"})
    before = kvm.State.of(made.host, found(made))
    kvm.switch(made.host, found(made), "shadow")
    made.fault("ignored")
    with pytest.raises(MachineError, match="not as it was: ple_gap was 0"):
        kvm.put_back(made.host, before)


def test_the_device_has_its_owner_and_mode_again(made: MadeUp) -> None:
    (made.root / "dev/kvm").chmod(0o660)
    kvm.switch(made.host, found(made), "shadow")
    assert (made.root / "dev/kvm").stat().st_mode & 0o777 == 0o660


def test_a_guest_that_runs_is_named_and_nothing_done(made: MadeUp) -> None:
    made.use(pid=4711)
    with pytest.raises(MachineError, match=r"in use by qemu-system-x86 \(process 4711\)"):
        kvm.switch(made.host, found(made), "shadow")
    assert made.calls == []


def test_users_that_cannot_be_seen_count_too(made: MadeUp) -> None:
    (made.folder / "refcnt").write_text("2\n")
    with pytest.raises(MachineError, match="something that cannot be seen from here"):
        kvm.switch(made.host, found(made), "shadow")
    assert made.calls == []


def test_what_is_built_in_cannot_be_switched(made: MadeUp) -> None:
    (made.folder / "refcnt").unlink()
    with pytest.raises(MachineError, match="built into this kernel") as raised:
        kvm.switch(made.host, found(made), "shadow")
    assert "kvm_intel.ept=0" in str(raised.value)
    assert made.calls == []


def test_what_could_not_be_loaded_again_is_not_unloaded(made: MadeUp) -> None:
    """As after an upgrade of the kernel that runs."""
    for path in (made.root / "defaults/kvm_intel").iterdir():
        path.unlink()
    (made.root / "defaults/kvm_intel").rmdir()
    with pytest.raises(MachineError, match="could not be loaded again"):
        kvm.switch(made.host, found(made), "shadow")
    assert made.reloads == []


def test_a_guest_that_appears_in_between_changes_nothing(made: MadeUp) -> None:
    made.fault("appears")
    with pytest.raises(MachineError, match="Module kvm_intel is in use"):
        kvm.switch(made.host, found(made), "shadow")
    assert made.parameters == INTEL
    assert made.reloads == ["rmmod kvm_intel"]


def test_a_reload_that_fails_halfway_is_undone(made: MadeUp) -> None:
    made.fault("refused", "ept=0")
    with pytest.raises(MachineError, match=r"ept=0 failed: .*Operation not supported"):
        kvm.switch(made.host, found(made), "shadow")
    assert made.parameters == INTEL
    assert made.calls[-1] == "modprobe kvm_intel ept=Y"


def test_a_reload_that_fails_both_ways_says_both(made: MadeUp) -> None:
    made.fault("refused", "ept=0\nept=Y")
    with pytest.raises(MachineError, match=r"ept=0 failed.*And then: .*ept=Y failed"):
        kvm.switch(made.host, found(made), "shadow")


def test_a_module_that_does_not_do_as_reported_is_put_back(made: MadeUp) -> None:
    made.fault("ignored")
    with pytest.raises(MachineError, match="was loaded with ept=0, but says kvm_intel with ept=Y"):
        kvm.switch(made.host, found(made), "shadow")
    assert made.parameters == INTEL
