"""Commands that begin by a fork are what they would be in a Python of their own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests import commands
from tests.integration.lab import Lab, until

THREADS = "import tests.preloaded, pathlib; print(pathlib.Path('/proc/self/status').read_text())"


def test_what_is_preloaded_starts_no_thread() -> None:
    """None of them would go on in a fork."""
    root = Path(__file__).parents[1]
    done = subprocess.run([sys.executable, "-c", THREADS], cwd=root, capture_output=True, text=True)
    assert "Threads:\t1\n" in done.stdout, done.stderr


def test_a_refusal_is_the_same(tmp_path: Path) -> None:
    found = []
    for python in ((), commands.NEW):
        out, err = (tmp_path / f"{name}{len(found)}" for name in ("out", "err"))
        out.touch()
        err.touch()
        process = commands.start(
            *("run", "nonesuch"),
            folder=tmp_path,
            env={**os.environ, "COLUMNS": "60"},
            out=out,
            err=err,
            python=python,
        )
        found.append((process.wait(60), out.read_text(), err.read_text()))
    assert found[0] == found[1] and found[0][0] == 2 and "'nonesuch'" in found[0][2]


@pytest.mark.runs
def test_it_is_found_by_its_words_and_its_environment_and_hears_signals(tmp_path: Path) -> None:
    lab = Lab(tmp_path)
    started = lab.start("weigh", "--on", "native", "--", "sleep", "0.3")
    assert isinstance(started.process, commands.Process) or not commands.can_fork()
    until(lambda: lab.find(r"^sleep 0.3$"), "the command to run")
    assert lab.processes()[started.process.pid].endswith(
        "-m hypertare weigh --on native -- sleep 0.3"
    )
    started.process.send_signal(signal.SIGINT)
    ended = started.end()
    assert ended.status == 130 and "interrupted" in ended.said
    assert started.process.poll() == 130
