"""What a study's guests need of a user's own Xen host, and what is said where it is not there."""

from __future__ import annotations

from pathlib import Path

import pytest

from hypertare.base.errors import InputError, MachineError
from hypertare.base.host_files import Ran
from hypertare.machines.host import xen
from hypertare.study import Study, StudyFile
from tests.doctor.factory import make_host

DRIVER_DOMAIN = {"/sys/hypervisor/type": "xen", "/proc/xen/capabilities": "control_d\n"}

# Of Xen 4.17.7, shortened.
INFO = """host                   : dom0
nr_cpus                : 1
total_memory           : 1023
free_memory            : 498
sharing_freed_memory   : 0
xen_version            : 4.17.7
xen_caps               : xen-3.0-x86_64 hvm-3.0-x86_32
xen_scheduler          : credit
xen_commandline        : com1=115200,8n1 console=com1 sched=credit
"""


def study(sut: str = "", rest: str = "", guests: int = 2, memory: str = "128M") -> Study:
    text = f"""
name = "x"
question = "?"
machine = "local"
[sut]
platforms = ["native", "xen"]
memory = "{memory}"
guests = {guests}
{sut}
[workloads.tcp]
type = "stream"
{rest}
"""
    return StudyFile(text, "x.toml").study()


def check(root: Path, wanted: Study, info: Ran | None = None) -> xen.Xen:
    host = make_host(root, DRIVER_DOMAIN, {"xl info": info or Ran(0, INFO)})
    return xen.check(host, [wanted])


@pytest.fixture(autouse=True)
def as_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 0)


def test_a_driver_domain_with_room_has_all_that_is_needed(tmp_path: Path) -> None:
    found = check(tmp_path, study('scheduler = "credit"'))
    assert found == xen.Xen("4.17.7", "credit", 498 << 20)
    assert found.described == "4.17.7, scheduler credit"


def test_a_host_without_xen_and_a_guest_of_it_are_reported_apart(tmp_path: Path) -> None:
    with pytest.raises(MachineError, match="does not run under it"):
        xen.check(make_host(tmp_path / "plain"), [study()])
    guest = {"/sys/hypervisor/type": "xen", "/proc/xen/capabilities": ""}
    with pytest.raises(MachineError, match="not as its driver domain"):
        xen.check(make_host(tmp_path / "guest", guest), [study()])


def test_only_root_makes_guests(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    with pytest.raises(MachineError, match="by root only"):
        check(tmp_path, study())


def test_tools_that_are_missing_or_fail_are_named(tmp_path: Path) -> None:
    with pytest.raises(MachineError, match="xl info: xl is not installed"):
        check(tmp_path, study(), info=Ran(None, err="xl is not installed"))
    with pytest.raises(MachineError, match="cannot open libxl context"):
        check(tmp_path, study(), info=Ran(1, err="cannot open libxl context"))
    with pytest.raises(MachineError, match="does not report xen_scheduler"):
        check(tmp_path, study(), info=Ran(0, "xen_version : 4.17\nfree_memory : 9\n"))


def test_the_scheduler_is_taken_as_it_is_unless_one_is_asked_for(tmp_path: Path) -> None:
    other = Ran(0, INFO.replace(": credit\n", ": credit2\n"))
    assert check(tmp_path, study(), info=other).scheduler == "credit2"
    with pytest.raises(MachineError, match="runs with credit2, and cannot change") as raised:
        check(tmp_path, study('scheduler = "credit"'), info=other)
    assert "sched=credit" in (raised.value.do or "")


def test_guests_that_do_not_fit_are_refused_with_the_number_that_would(tmp_path: Path) -> None:
    check(tmp_path, study(guests=3))
    with pytest.raises(MachineError, match=r"4 guests of 128 MiB need .*: 3 fit"):
        check(tmp_path, study(guests=4))
    with pytest.raises(MachineError, match="room for 16"):
        check(tmp_path, study(memory="20G"))


@pytest.mark.parametrize(
    ("rest", "why"),
    [
        ('[bench]\npeers = "guest"', "peers"),
        ('[workloads.sh]\ntype = "command"\ncommand = ["true"]', "do not see this host's files"),
    ],
)
def test_what_guests_of_xen_on_this_host_have_not_is_refused(rest: str, why: str) -> None:
    with pytest.raises(InputError, match=why):
        study(rest=rest)


def test_guests_of_kvm_and_of_xen_do_not_share_a_host() -> None:
    both = """
name = "x"
question = "?"
machine = "local"
[sut]
platforms = ["native", "guest", "xen"]
[workloads.tcp]
type = "stream"
"""
    with pytest.raises(InputError, match="under Xen there is no KVM"):
        StudyFile(both, "x.toml").study()
