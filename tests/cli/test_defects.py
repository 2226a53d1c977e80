"""What nobody thought of: one sentence, and the traceback in a file."""

from __future__ import annotations

import os
import re
import resource
import subprocess
import sys
from pathlib import Path

import pytest

BREAK = """
from hypertare import cli
def broken(*_):
    raise ZeroDivisionError("a thing of two\\nlines")
cli._register, cli.app = lambda: None, broken
cli.main()
"""


def broken(code: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        env={**os.environ, "TMPDIR": str(folder)},
        timeout=60,
    )


def test_a_defect_is_a_sentence_and_a_file_for_its_report(tmp_path: Path) -> None:
    ended = broken(BREAK, tmp_path)
    assert (ended.returncode, ended.stdout) == (1, "")
    first, second = ended.stderr.splitlines()
    assert first == "hypertare: a defect of hypertare itself: ZeroDivisionError: a thing of two"
    (file,) = tmp_path.iterdir()
    assert re.search(r"report it with (\S+)\.$", second)[1] == str(file)  # type: ignore[index]
    assert "Traceback" in file.read_text() and "in broken" in file.read_text()


def test_an_interrupt_while_a_class_is_made_is_no_defect(tmp_path: Path) -> None:
    interrupted = BREAK.replace(
        'raise ZeroDivisionError("a thing of two\\nlines")',
        """
    class Name:
        def __set_name__(self, *_):
            raise KeyboardInterrupt
    class Named:
        name = Name()
""",
    )
    ended = broken(interrupted, tmp_path)
    assert (ended.returncode, ended.stderr) == (130, "hypertare: interrupted.\n")
    assert not list(tmp_path.iterdir())


def test_a_defect_without_room_for_a_file_shows_its_traceback(tmp_path: Path) -> None:
    full = "import resource\nresource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))\n"
    ended = broken(
        f"import tempfile\ntempfile.tempdir = {str(tmp_path)!r}\n{full}{BREAK}", tmp_path
    )
    assert ended.returncode == 1
    assert "Please report it with this:" in ended.stderr and "in broken" in ended.stderr


@pytest.mark.parametrize(
    "error",
    [
        "MemoryError()",
        "OSError(12, 'Cannot allocate memory')",
        "ImportError('x.so: failed to map segment from shared object')",
        'RuntimeError("can\'t start new thread")',
    ],
)
def test_memory_that_has_run_out_is_no_defect(error: str, tmp_path: Path) -> None:
    ended = broken(re.sub(r"raise .*", lambda _: f"raise {error}", BREAK), tmp_path)
    assert ended.returncode == 3
    assert "this machine gave hypertare no more memory" in ended.stderr
    assert "--resume" in ended.stderr and not list(tmp_path.iterdir())


def test_too_little_room_for_addresses_is_one_sentence() -> None:
    def limited() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (300 << 20, resource.RLIM_INFINITY))

    done = subprocess.run(
        [sys.executable, "-m", "hypertare", "weigh", "--", "true"],
        preexec_fn=limited,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 3
    assert "300 MB here (`ulimit -v`), and hypertare needs 1024 MB" in done.stderr
    assert len(done.stderr.splitlines()) == 2 and done.stdout == ""


def test_nothing_is_left_open(tmp_path: Path) -> None:
    """As Python's development mode sees it."""
    few = ("--on", "native,container", "--warmup", "0", "--min-trials", "2", "--max-trials", "2")
    done = subprocess.run(
        [
            sys.executable,
            "-X",
            "dev",
            "-m",
            "hypertare",
            "weigh",
            *few,
            "--out",
            "run",
            "--",
            "true",
        ],
        cwd=tmp_path,
        env=os.environ | {"PYTHONWARNINGS": "always", "PYTHONMALLOC": "debug"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "Warning" not in done.stderr
