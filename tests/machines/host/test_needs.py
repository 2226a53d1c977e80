"""What a bench needs of this host, and what is said where the host has it not. Nothing is changed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hypertare.base.errors import InputError, MachineError
from hypertare.machines.host import settings as needs
from hypertare.machines.host.settings import NOTHING, Needs, Permissions
from hypertare.protocol import plan
from tests.machines.host.made_up import MadeUp

ALL = Permissions(module_reload=True, huge_pages=True)


def guest(name: str = "guest1", **settings: Any) -> plan.Node:
    kind = plan.Guest(
        cpus=1,
        memory=settings.pop("memory", 256 << 20),
        accelerator="kvm",
        kernel=Path("/k"),
        initramfs=(Path("/i"),),
        boot_limit_s=1.0,
        settings=plan.GuestSettings(**settings),
    )
    return plan.Node(name=name, kind=kind)


def bench(*nodes: plan.Node) -> plan.Bench:
    return plan.Bench(name="b", nodes=(plan.Node(name="host", kind=plan.Host()), *nodes))


def test_needs_are_those_of_all_guests() -> None:
    assert Needs.of(bench()) == Needs()
    assert Needs.of(bench(guest(), guest("guest2"))) == Needs()
    two = bench(guest(pages="2M", paging="nested"), guest("guest2", pages="2M", memory=3 << 20))
    assert Needs.of(two) == Needs("nested", 128 + 2)
    assert Needs.of(bench(guest(pages="4K"))) == Needs()


def test_one_bench_has_one_kind_of_page_tables() -> None:
    with pytest.raises(InputError, match="nested and with shadow"):
        Needs.of(bench(guest(paging="nested"), guest("guest2", paging="shadow")))


@pytest.mark.parametrize("needed", [Needs(), Needs("nested"), Needs(huge_pages=64)])
def test_what_is_there_needs_no_permission(made: MadeUp, needed: Needs) -> None:
    made.set_pages(100, 80, promised=16)
    made.use()
    assert needs.check(made.host, needed, NOTHING)


def test_other_page_tables_are_refused_with_what_to_do(made: MadeUp) -> None:
    with pytest.raises(
        MachineError, match="kvm_intel with ept=Y: its guests have nested"
    ) as raised:
        needs.check(made.host, Needs("shadow"), NOTHING)
    assert "--allow-module-reload" in str(raised.value)
    assert not needs.check(made.host, Needs("shadow"), ALL)


def test_a_module_in_use_is_found_before_the_run(made: MadeUp) -> None:
    made.use(pid=7)
    with pytest.raises(MachineError, match=r"in use by qemu-system-x86 \(process 7\)"):
        needs.check(made.host, Needs("shadow"), ALL)


def test_without_kvm_it_says_what_is_missing(made: MadeUp) -> None:
    made.folder.rename(made.root / "elsewhere")
    with pytest.raises(MachineError, match="KVM is not loaded") as raised:
        needs.check(made.host, Needs("nested"), ALL)
    assert "modprobe kvm_intel" in str(raised.value)


def test_a_module_that_does_not_report(made: MadeUp) -> None:
    (made.folder / "parameters/ept").unlink()
    with pytest.raises(MachineError, match="does not report"):
        needs.check(made.host, Needs("nested"), NOTHING)


def test_huge_pages_that_are_not_there_are_counted(made: MadeUp) -> None:
    made.set_pages(100, 80, promised=30)
    with pytest.raises(
        MachineError, match=r"needs 64 free pages .*but 50 of 100 are free"
    ) as raised:
        needs.check(made.host, Needs(huge_pages=64), NOTHING)
    assert "vm.nr_hugepages=114" in str(raised.value)
    with pytest.raises(MachineError, match="of memory are available"):
        needs.check(made.host, Needs(huge_pages=64), ALL)
    (made.root / "proc/meminfo").write_text("MemAvailable: 1000000 kB\n")
    needs.check(made.host, Needs(huge_pages=64), ALL)


def test_a_kernel_without_huge_pages(made: MadeUp) -> None:
    (made.root / "sys/kernel/mm/hugepages").rename(made.root / "elsewhere")
    with pytest.raises(MachineError, match="none of that size"):
        needs.check(made.host, Needs(huge_pages=1), ALL)


@pytest.mark.parametrize("needed", [Needs("shadow"), Needs(huge_pages=1)])
def test_only_root_changes_settings(
    made: MadeUp, monkeypatch: pytest.MonkeyPatch, needed: Needs
) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    with pytest.raises(MachineError, match="only root may do; nothing was changed"):
        needs.check(made.host, needed, ALL)
    assert made.calls == []
