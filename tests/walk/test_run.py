"""Commands under QEMU's user mode, as a user runs them."""

from __future__ import annotations

import bz2
import json
import shutil
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hypertare.base.arch import ARCH
from hypertare.base.errors import MachineError
from hypertare.base.paths import walk_plugin
from hypertare.walk import processors, run
from hypertare.walk.processors import Options
from tests import commands

pytestmark = pytest.mark.runs


def walk(*argv: str, **settings: str) -> subprocess.CompletedProcess[str]:
    return commands.run("walk", *argv, env=settings)


def summary(tmp_path: Path, *command: str, processor: str = "zen4") -> dict[str, Any]:
    """What `--json` writes of a command that succeeds."""
    file = tmp_path / "walk.json"
    done = walk("--json", str(file), "--processor", processor, "--", *command)
    assert done.returncode == 0, done.stderr
    return json.loads(file.read_text())


def test_a_real_command_on_a_real_file(tmp_path):
    file = tmp_path / "words"
    file.write_bytes(b"".join(str(i * i).encode() for i in range(40_000)))
    found = summary(tmp_path, "bzip2", "-k", str(file), processor="phenom2")
    assert bz2.decompress((tmp_path / "words.bz2").read_bytes()) == file.read_bytes()
    assert (found["programs"], found["status"], found["lost"]) == (1, 0, [])
    assert found["instructions"] > found["accesses"] > 10_000_000
    costs = {
        tuple(cost["counts"][key] for key in ("paging", "guest_pages", "host_pages")): cost
        for cost in found["processors"][0]["layouts"]
    }
    assert len(costs) == 8
    native, nested = costs["native", "4K", None], costs["nested", "4K", "4K"]
    assert native["counts"]["walks"] == nested["counts"]["walks"] > 0
    assert 1 < native["slow_down"] < nested["slow_down"]
    assert costs["nested", "4K", "2M"]["slow_down"] < nested["slow_down"]
    assert costs["native", "2M", None]["counts"]["walks"] < native["counts"]["walks"] / 10
    assert native["references_per_walk"] < nested["references_per_walk"] < 24


TOUCH = """
#include <sys/mman.h>
enum { PAGES = 4096, ROUNDS = 64 };
int main(void) {
    volatile char *memory = mmap(0, PAGES * 4096L, PROT_READ | PROT_WRITE,
                                 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (int round = 0; round < ROUNDS; round++)
        for (int page = 0; page < PAGES; page++)
            memory[page * 4096L];
    return 0;
}
"""


def test_a_program_whose_walks_are_known(tmp_path):
    """It reads 4096 pages in turn, 64 times: more than any TLB of 512 entries, used least recently
    first, has of the next; and fewer than 48 of 2 MB."""
    source, program = tmp_path / "touch.c", tmp_path / "touch"
    source.write_text(TOUCH)
    subprocess.run(["gcc", "-O2", "-static", "-o", program, source], check=True)
    found = summary(tmp_path, str(program), processor="phenom2")
    rows = {
        (
            cost["counts"]["paging"],
            cost["counts"]["guest_pages"],
            cost["counts"]["host_pages"],
        ): cost
        for cost in found["processors"][0]["layouts"]
    }
    walks = 4096 * 64
    native = rows["native", "4K", None]["counts"]
    assert walks <= native["walks"] <= walks + 200
    # Upper entries are held: the leaf alone is read. Nested, the data's page is one of 4096 that the
    # host maps, too many for the nested TLB: its leaf too. In host pages of 2 MB there are 8.
    assert rows["native", "4K", None]["references_per_walk"] == pytest.approx(1, abs=0.01)
    assert rows["nested", "4K", "4K"]["references_per_walk"] == pytest.approx(2, abs=0.05)
    assert rows["nested", "4K", "2M"]["references_per_walk"] == pytest.approx(1, abs=0.01)
    assert rows["native", "2M", None]["counts"]["walks"] < 30


def test_programs_that_a_command_starts_are_followed(tmp_path):
    script = tmp_path / "script"
    script.write_text("#!/bin/sh\nsort /etc/passwd | wc -l\nexit 0\n")
    script.chmod(0o755)
    found = summary(tmp_path, str(script))
    # The shell; its two children, each before and after exec.
    assert found["programs"] == 5
    assert found["lost"] == []


def test_a_program_executed_by_its_descriptor_is_followed(tmp_path):
    """As `fexecve` does it, here of a file without a name."""
    program = """
import os, shutil
fd = os.memfd_create("copy", 0)
with open(shutil.which("sort"), "rb") as source:
    os.write(fd, source.read())
os.execve(fd, ["sort", "/etc/passwd"], {})
"""
    python = str(Path(sys.executable).resolve())
    found = summary(tmp_path, python, "-S", "-E", "-c", program)
    # Before and after exec.
    assert found["programs"] == 2
    assert found["lost"] == []


def test_threads_are_followed(tmp_path):
    """Two threads that do the same work access twice as much as one, give or take the rest."""
    program = """
import sys, threading
work = lambda: sum(i * i for i in range(300_000))
threads = [threading.Thread(target=work) for _ in range(int(sys.argv[1]))]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
"""
    python = str(Path(sys.executable).resolve())
    accesses = [
        summary(tmp_path, python, "-S", "-E", "-c", program, count)["accesses"] for count in "123"
    ]
    one_more, another = accesses[1] - accesses[0], accesses[2] - accesses[1]
    assert one_more > 1_000_000
    assert another == pytest.approx(one_more, rel=0.1)


def test_the_commands_status_and_output_are_its_own():
    done = walk("--", "sh", "-c", "echo out; exit 7")
    assert (done.returncode, done.stdout) == (7, "out\n")
    assert "nested" in done.stderr


def test_a_trace_that_ends_early_is_no_result():
    done = walk("--", "sh", "-c", "kill -KILL $$")
    assert done.returncode == 128 + 9
    assert "The trace ends early" in done.stderr and "SIGKILL" in done.stderr
    assert "slow-down" not in done.stderr


def test_a_child_killed_is_named():
    done = walk("--", "sh", "-c", "sh -c 'kill -KILL $$'; true")
    assert done.returncode == 0
    assert "not seen to their end" in done.stderr


def test_what_outlives_the_command_goes_on(tmp_path):
    """A program in the background forks and executes when nobody waits for its figures any more."""
    out = tmp_path / "out"
    done = walk("--", "sh", "-c", f"(sleep 2; echo here; ls /; (echo there)) >{out} 2>&1 &")
    assert done.returncode == 0, done.stderr
    deadline = time.monotonic() + 30
    while "there" not in (text := out.read_text()) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert text.startswith("here\n") and text.endswith("there\n")
    assert "usr" in text and "hypertare" not in text


def test_what_starts_when_nobody_waits_any_more_runs_unharmed(tmp_path):
    """The directory of the job is gone; a job that was never there is an error."""
    argv = ["qemu-x86_64", "-plugin"]
    gone = f"{walk_plugin()},job={tmp_path / 'gone' / 'results.job'}"
    done = subprocess.run([*argv, gone, "/bin/echo", "here"], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "here\n", "")
    missing = f"{walk_plugin()},job={tmp_path / 'missing.job'}"
    done = subprocess.run([*argv, missing, "/bin/echo", "here"], capture_output=True, text=True)
    assert done.returncode != 0 and "missing.job: No such file" in done.stderr


def test_an_impossible_processor_stops_before_the_command(tmp_path):
    text = Path(processors.__file__).with_name("processors").joinpath("zen4.toml").read_text()
    file = tmp_path / "odd.toml"
    file.write_text(text.replace("entries = 3072, ways = 24", "entries = 3072, ways = 23"))
    mark = tmp_path / "mark"
    done = walk("--processor", str(file), "--", "touch", str(mark))
    assert done.returncode == 2
    assert "zen4: second_tlb, 4K: 3072 entries cannot be divided into sets of 23" in done.stderr
    assert not mark.exists()


def test_an_unknown_key_is_said(tmp_path):
    file = tmp_path / "odd.toml"
    text = Path(processors.__file__).with_name("processors").joinpath("zen4.toml").read_text()
    file.write_text("colour = 3\n" + text)
    done = walk("--processor", str(file), "--", "true")
    assert done.returncode == 2
    assert "zen4: unknown field `colour`" in done.stderr


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["--", "no-such-program"], "no-such-program: there is no such program"),
        ([], "There is no command"),
        (["--cpi", "0", "--", "true"], "--cpi 0"),
        (
            ["--cache-share", "2", "--", "true"],
            "--cache-share: 2 is no share; 2 percent are written 2%",
        ),
        (["--cache-share", "0", "--", "true"], "--cache-share 0: write a share above 0"),
        (["--processor", "486", "--", "true"], "There is no processor 486"),
    ],
)
def test_bad_input(argv, said):
    done = walk(*argv)
    assert done.returncode == 2
    assert said in done.stderr and "Traceback" not in done.stderr


def test_a_plugin_that_qemu_refuses(tmp_path):
    other = tmp_path / "other.so"
    shutil.copy("/lib/x86_64-linux-gnu/libc.so.6", other)
    done = walk("--", "true", HYPERTARE_WALK_PLUGIN=str(other))
    assert done.returncode == 3
    assert "does not take the plugin" in done.stderr
    assert "Traceback" not in done.stderr


def test_without_qemu(monkeypatch):
    monkeypatch.setattr(run, "ARCH", replace(ARCH, machine="no-such-machine"))
    with pytest.raises(MachineError, match="apt-get install qemu-user"):
        run.walk(["true"], processors.chosen(["zen4"]), Options(1, 0.25), lambda *_: None)
