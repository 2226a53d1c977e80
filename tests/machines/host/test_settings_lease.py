"""Settings changed and put back, by the keeper too, whoever is killed on the way."""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from hypertare.base.errors import MachineError
from hypertare.machines.host import keeper
from hypertare.machines.host import settings as journal
from hypertare.machines.host.keeper import (
    HostSettings,
    NotPutBackError,
    SettingsLease,
    _heard,
    left_behind,
    recover,
)
from hypertare.machines.host.settings import NOTHING, Needs, Permissions, find_huge_pages
from tests.machines.host.made_up import INTEL, MadeUp

ALL = Permissions(module_reload=True, huge_pages=True)
SHADOW = Needs("shadow")
FREE_PAGES = "sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages"

CONTROLLER = """
import sys, time
from pathlib import Path
from hypertare.machines.host.keeper import SettingsLease
from hypertare.machines.host.settings import Needs, Permissions
import os
os.geteuid = lambda: 0
lease = SettingsLease(Permissions(True, True), Path(sys.argv[1]))
lease.provide(Needs("shadow"))
print("provided", flush=True)
time.sleep(600)
"""


def until(holds: Callable[[], object], limit_s: float = 30.0) -> None:
    deadline = time.monotonic() + limit_s
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def keeper_of(lease: SettingsLease) -> subprocess.Popen[bytes]:
    keeper = lease._keeper
    assert keeper is not None
    return keeper


def ask(lease: SettingsLease, line: bytes) -> None:
    keeper = keeper_of(lease)
    assert keeper.stdin is not None
    keeper.stdin.write(line)
    keeper.stdin.flush()


@pytest.fixture
def pages(made: MadeUp, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, int]]:
    """A kernel that finds as many pages as are named here; 100 are set aside, 60 in use."""
    kernel = {"most": 1000, "used": 60, "total": 100}

    def set_total(host: object, total: int) -> None:
        kernel["total"] = max(min(total, kernel["most"]), kernel["used"])
        made.set_pages(kernel["total"], kernel["total"] - kernel["used"])

    monkeypatch.setattr(keeper, "set_huge_pages", set_total)
    set_total(None, 100)
    (made.root / "proc/meminfo").write_text("MemAvailable: 9000000 kB\n")
    yield kernel


# --- in one process


def test_the_journal_is_there_before_anything_changes_and_gone_after(made: MadeUp) -> None:
    made.fault("refused", "ept=0\nept=Y")
    with journal.held(made.host):
        settings = HostSettings(made.host)
        with pytest.raises(MachineError):
            settings.provide(SHADOW)
        kept = journal.read(made.host)
        assert kept.module is not None and kept.module.parameters == INTEL
        (made.root / "refused").unlink()
        settings.put_back()
    assert made.parameters == INTEL
    assert not made.journal.parent.exists()


def test_from_plot_to_plot(made: MadeUp) -> None:
    with journal.held(made.host):
        settings = HostSettings(made.host)
        for paging, ept in (("shadow", "N"), ("nested", "Y"), ("shadow", "N"), (None, "Y")):
            settings.provide(Needs(paging))  # type: ignore[arg-type]
            assert made.parameters["ept"] == ept
        settings.put_back()
    assert made.parameters == INTEL
    assert len(made.reloads) == 8


def test_the_same_again_changes_nothing(made: MadeUp) -> None:
    with journal.held(made.host):
        settings = HostSettings(made.host)
        settings.provide(SHADOW)
        calls = made.calls
        settings.provide(SHADOW)
        assert made.calls == calls
        settings.put_back()


def test_huge_pages_are_set_aside_as_missing_and_given_back(
    made: MadeUp, pages: dict[str, int]
) -> None:
    with journal.held(made.host):
        settings = HostSettings(made.host)
        settings.provide(Needs(huge_pages=40))
        assert pages["total"] == 100
        settings.provide(Needs(huge_pages=64))
        assert pages["total"] == 124
        settings.provide(Needs())
        assert pages["total"] == 100
        settings.provide(Needs(huge_pages=200))
        settings.put_back()
    assert pages["total"] == 100
    assert not made.journal.exists()


def test_memory_in_pieces_gives_fewer_pages_than_asked_for(
    made: MadeUp, pages: dict[str, int]
) -> None:
    pages["most"] = 110
    with journal.held(made.host):
        settings = HostSettings(made.host)
        with pytest.raises(MachineError, match="found 50: memory lies in pieces") as raised:
            settings.provide(Needs(huge_pages=64))
    assert pages["total"] == 100
    assert "hugepages=164" in str(raised.value)


def test_pages_in_use_are_given_back_when_they_are_free(
    made: MadeUp, pages: dict[str, int]
) -> None:
    with journal.held(made.host):
        settings = HostSettings(made.host)
        settings.provide(Needs(huge_pages=64))
        pages["used"] = 120
        with pytest.raises(MachineError, match="some are in use") as raised:
            settings.put_back()
        assert "doctor --put-back" in str(raised.value)
        assert journal.read(made.host).huge_pages == 100
        pages["used"] = 10
        settings.put_back()
    assert pages["total"] == 100


def test_one_thing_that_stays_does_not_keep_the_other(made: MadeUp, pages: dict[str, int]) -> None:
    with journal.held(made.host):
        settings = HostSettings(made.host)
        settings.provide(Needs("shadow", 64))
        made.use(pid=99)
        with pytest.raises(MachineError, match=r"in use by qemu-system-x86 \(process 99\)"):
            settings.put_back(patience_s=1.0)
        assert pages["total"] == 100
        (made.folder / "refcnt").write_text("0\n")
        (made.root / "proc/99/fd/11").unlink()
        settings.put_back()
    assert made.parameters == INTEL


def test_a_journal_that_nobody_understands_is_an_error(made: MadeUp) -> None:
    made.journal.parent.mkdir()
    made.journal.write_text('{"module": {"name": 1}}')
    with pytest.raises(MachineError, match="cannot be read"):
        journal.read(made.host)


def test_without_room_for_the_journal_nothing_is_changed(
    made: MadeUp, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with journal.held(made.host):
        with pytest.raises(MachineError, match=r"written: No space left on device\.") as raised:
            HostSettings(made.host).provide(SHADOW)
        assert "df /run/hypertare" in str(raised.value)
    assert made.reloads == []
    assert not made.journal.parent.exists(), "half a journal was left"


def test_pages_that_are_no_number_are_named(made: MadeUp) -> None:
    made.set_pages(0, 0)
    (made.root / FREE_PAGES).write_text("many\n")
    with pytest.raises(MachineError, match=r"free_hugepages says 'many', which is no number"):
        find_huge_pages(made.host)


# --- with a keeper


def test_what_a_keeper_cannot_do_is_reported_and_all_of_it_is_put_back(made: MadeUp) -> None:
    lease = SettingsLease(ALL, made.root)
    lease.provide(SHADOW)
    (made.root / FREE_PAGES).write_text("many\n")
    with pytest.raises(MachineError, match="no number of pages"):
        lease.provide(Needs("shadow", 64))
    assert made.parameters["ept"] == "N"
    lease.close()
    assert made.parameters == INTEL
    assert not made.journal.parent.exists()


def test_no_room_for_the_keeper_s_journal(made: MadeUp) -> None:
    made.journal.with_suffix(".new").mkdir(parents=True)
    lease = SettingsLease(ALL, made.root)
    with pytest.raises(MachineError, match=r"before\.json, .* cannot be written: Is a directory"):
        lease.provide(SHADOW)
    lease.close()
    assert made.reloads == [] and made.parameters == INTEL


def test_a_journal_that_cannot_be_removed_keeps_nothing_from_being_put_back(made: MadeUp) -> None:
    lease = SettingsLease(ALL, made.root, patience_s=0.5)
    lease.provide(SHADOW)
    made.journal.unlink()
    (made.journal / "in the way").mkdir(parents=True)
    with pytest.raises(NotPutBackError, match=r"before\.json, .* cannot be removed") as raised:
        lease.close()
    assert "df /run/hypertare" in str(raised.value)
    assert made.parameters == INTEL


@pytest.mark.parametrize("line", [b"nonsense\n", b'{"pages": 1}\n', b"[]\n"])
def test_a_keeper_outlives_what_it_does_not_expect(made: MadeUp, line: bytes) -> None:
    lease = SettingsLease(ALL, made.root)
    lease.provide(SHADOW)
    ask(lease, line)
    answer = _heard(keeper_of(lease), 30)
    assert answer.what is not None and "does not expect" in answer.what and not answer.last
    assert answer.do is not None and "doctor --put-back" in answer.do
    lease.provide(SHADOW)
    lease.close()
    assert made.parameters == INTEL


def test_a_keeper_that_cannot_go_on_puts_back_and_says_why(
    made: MadeUp, monkeypatch: pytest.MonkeyPatch
) -> None:
    def asked() -> Iterator[str]:
        yield '{"paging": "shadow"}\n'
        assert made.parameters["ept"] == "N"
        raise RuntimeError("the pipe broke")

    said: list[keeper.Answer] = []
    monkeypatch.setattr(keeper, "_answer", said.append)
    monkeypatch.setattr(keeper, "_ENDING", ())
    monkeypatch.setattr(sys, "stdin", asked())
    with journal.held(made.host):
        last = keeper._look_after(HostSettings(made.host), 0.0)
    assert said == [keeper.Answer(), keeper.Answer()]
    assert last.what is not None and "RuntimeError: the pipe broke" in last.what
    assert made.parameters == INTEL
    assert not made.journal.parent.exists()


def test_changed_by_a_keeper_and_put_back_at_the_end(made: MadeUp) -> None:
    lease = SettingsLease(ALL, made.root)
    lease.provide(Needs())
    assert lease._keeper is None, "nothing is to be changed, so nobody is needed"
    lease.provide(SHADOW)
    assert made.parameters["ept"] == "N"
    lease.provide(Needs("nested"))
    assert made.parameters == INTEL
    lease.provide(SHADOW)
    lease.close()
    assert made.parameters == INTEL
    assert not made.journal.parent.exists()


def test_without_permission_there_is_no_keeper(made: MadeUp) -> None:
    lease = SettingsLease(NOTHING, made.root)
    with pytest.raises(MachineError, match="--allow-module-reload"):
        lease.provide(SHADOW)
    lease.close()
    assert made.calls == []


def test_a_reload_that_fails_is_reported_and_the_next_one_may_work(made: MadeUp) -> None:
    fault = made.fault("refused", "ept=0")
    lease = SettingsLease(ALL, made.root)
    with pytest.raises(MachineError, match="Operation not supported"):
        lease.provide(SHADOW)
    fault.unlink()
    lease.provide(SHADOW)
    assert made.parameters["ept"] == "N"
    lease.close()
    assert made.parameters == INTEL


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_put_back_when_the_controller_is_killed(made: MadeUp, number: signal.Signals) -> None:
    controller = subprocess.Popen(
        [sys.executable, "-c", CONTROLLER, str(made.root)], stdout=subprocess.PIPE
    )
    assert controller.stdout is not None
    assert controller.stdout.readline() == b"provided\n"
    assert made.parameters["ept"] == "N"
    controller.send_signal(number)
    controller.wait()
    until(lambda: not made.journal.parent.exists())
    assert made.parameters == INTEL


def test_put_back_when_the_keeper_is_reported_to_end(made: MadeUp) -> None:
    lease = SettingsLease(ALL, made.root)
    lease.provide(SHADOW)
    keeper_of(lease).send_signal(signal.SIGTERM)
    until(lambda: not made.journal.parent.exists())
    assert made.parameters == INTEL
    with pytest.raises(MachineError):
        lease.provide(Needs("nested"))


def test_interrupted_between_unloading_and_loading(made: MadeUp) -> None:
    """As when the machine is shut down at that moment: the signal meets a module that is gone."""
    slow = made.programs / "modprobe"
    slow.write_text(
        slow.read_text().replace(
            "#!/bin/sh", f'#!/bin/sh\ncase "$2" in ept=0) : > {made.root}/waits; sleep 60;; esac'
        )
    )
    lease = SettingsLease(ALL, made.root)
    lease._begin()
    keeper = keeper_of(lease)
    ask(lease, b'{"paging": "shadow"}\n')
    until(lambda: (made.root / "waits").exists())
    assert not made.folder.exists()
    keeper.send_signal(signal.SIGTERM)
    keeper.wait(30)
    assert made.parameters == INTEL
    assert not made.journal.exists()


def test_a_killed_keeper_leaves_a_journal_that_is_taken_up(made: MadeUp) -> None:
    lease = SettingsLease(ALL, made.root)
    lease.provide(SHADOW)
    keeper_of(lease).kill()
    keeper_of(lease).wait()
    with pytest.raises(NotPutBackError, match="has ended"):
        lease.close()
    assert made.parameters["ept"] == "N"
    assert left_behind(made.host) == ["kvm_intel had ept=Y and now has kvm_intel with ept=N"]
    said: list[str] = []
    recover(made.host, said.append)
    assert made.parameters == INTEL
    assert said == [
        "put back what a killed run had left: kvm_intel had ept=Y and now has kvm_intel with ept=N"
    ]
    assert left_behind(made.host) == []
    recover(made.host, said.append)
    assert len(said) == 1


def test_the_next_run_s_keeper_takes_it_up_too(made: MadeUp) -> None:
    lease = SettingsLease(ALL, made.root)
    lease.provide(SHADOW)
    keeper_of(lease).kill()
    keeper_of(lease).wait()
    following = SettingsLease(ALL, made.root)
    following._begin()
    assert made.parameters == INTEL
    following.close()


def test_who_is_not_root_is_reported_what_root_can_do(
    made: MadeUp, monkeypatch: pytest.MonkeyPatch
) -> None:
    lease = SettingsLease(ALL, made.root)
    lease.provide(SHADOW)
    keeper_of(lease).kill()
    keeper_of(lease).wait()
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    said: list[str] = []
    recover(made.host, said.append)
    assert "As root: hypertare doctor --put-back" in said[0]
    assert made.parameters["ept"] == "N"


def test_two_runs_cannot_have_settings_at_once(made: MadeUp) -> None:
    first, second = SettingsLease(ALL, made.root), SettingsLease(ALL, made.root)
    first.provide(SHADOW)
    with pytest.raises(MachineError, match="another run has changed settings"):
        second.provide(Needs("nested"))
    # What the first made the host have is not for the second, not even the same.
    with pytest.raises(MachineError, match="another run has changed settings"):
        second.provide(SHADOW)
    second.close()
    assert left_behind(made.host) == [], "somebody looks after it"
    assert made.parameters["ept"] == "N"
    first.close()
    assert made.parameters == INTEL
    second.provide(SHADOW)
    assert made.parameters["ept"] == "N"
    second.close()
    assert made.parameters == INTEL


def test_whose_keeper_was_refused_asks_again_and_has_nothing_to_put_back(made: MadeUp) -> None:
    """As where the other run has begun to change things since the check."""
    second = SettingsLease(ALL, made.root)
    with journal.held(made.host):
        for _ in range(2):
            with pytest.raises(MachineError, match="another run has changed settings"):
                second._begin()
    second.close()
    second.provide(SHADOW)
    second.close()
    assert made.parameters == INTEL


def test_who_only_looks_is_in_nobody_s_way(made: MadeUp) -> None:
    """Looking takes the lock for a moment."""
    folder = made.journal.parent
    folder.mkdir()
    lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    fcntl.flock(lock, fcntl.LOCK_SH)
    threading.Timer(0.1, os.close, [lock]).start()
    with journal.held(made.host):
        assert journal.is_held(made.host)


def test_a_guest_of_somebody_else_at_the_end(made: MadeUp) -> None:
    """It cannot be put back now: that is said, and how to do it later."""
    lease = SettingsLease(ALL, made.root, patience_s=0.5)
    lease.provide(SHADOW)
    made.use(pid=os.getpid())
    with pytest.raises(NotPutBackError, match="in use by qemu-system-x86") as raised:
        lease.close()
    assert "hypertare doctor --put-back" in str(raised.value)
    (made.folder / "refcnt").write_text("0\n")
    for link in Path(made.root / "proc").glob("*/fd/*"):
        link.unlink()
    recover(made.host, lambda _: None)
    assert made.parameters == INTEL
