"""Which process of this host a machine that was there before is in."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from hypertare.base.errors import MachineError
from hypertare.machines.host.given import process_of

US = 50
"""This process in the procfs below; 40 has started it, and 60 is an ssh of its own."""


@pytest.fixture
def proc(tmp_path: Path) -> Path:
    """A procfs: number, parent and command line."""
    for pid, parent, words in (
        (1, 0, "init"),
        (10, 1, "VBoxHeadless --startvm lab"),
        (11, 10, "VBoxHeadless --startvm lab --worker"),
        (12, 1, "VBoxHeadless --startvm other"),
        (40, 1, "sh -c hypertare run --set given.a.outside=VBoxHeadless --startvm lab"),
        (US, 40, "hypertare run --set given.a.outside=VBoxHeadless --startvm lab"),
        (60, US, "ssh VBoxHeadless --startvm lab"),
        (70, 2, ""),
    ):
        place = tmp_path / str(pid)
        place.mkdir()
        (place / "stat").write_text(f"{pid} (a) b (c) S {parent} 1 1")
        (place / "cmdline").write_bytes(words.replace(" ", "\0").encode() + b"\0")
    (tmp_path / "self").mkdir()
    (tmp_path / "80").mkdir()
    return tmp_path


def test_it_is_the_one_above_all_that_have_the_words_and_none_of_ours(proc: Path) -> None:
    assert process_of("--startvm lab", proc, US) == 10
    assert process_of("startvm other", proc, US) == 12
    assert process_of("pid:12", proc, US) == 12


@pytest.mark.parametrize(
    ("outside", "said"),
    [
        ("VBoxHeadless", r"2 processes of this host have that .*\(10, 12\)"),
        ("vmware-vmx", "no process of this host has that in its command line"),
        ("outside=VBoxHeadless", "no process of this host has that"),
        ("pid:4711", "this host has no process 4711"),
    ],
)
def test_what_is_none_or_not_one_is_refused(proc: Path, outside: str, said: str) -> None:
    with pytest.raises(MachineError, match=said):
        process_of(outside, proc, US)


def test_a_process_of_this_host_is_found_by_its_words() -> None:
    words = f"31536{os.getpid()}"
    with subprocess.Popen(("sleep", words)) as one:
        try:
            # It is below this process, and so none that was there before.
            with pytest.raises(MachineError, match="no process"):
                process_of(f"sleep {words}")
            assert process_of(f"sleep {words}", own=one.pid + 1_000_000) == one.pid
            assert process_of(f"pid:{one.pid}") == one.pid
        finally:
            one.kill()
