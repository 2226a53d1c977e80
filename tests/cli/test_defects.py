"""What nobody thought of: one sentence, and the traceback in a file."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

BREAK = """
from hypertare import cli
def broken(*_):
    raise ZeroDivisionError("a thing of two\\nlines")
cli._register, cli.app = lambda: None, broken
cli.main()
"""


def test_a_defect_is_a_sentence_and_a_file_for_its_report(tmp_path: Path) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", BREAK],
        capture_output=True,
        text=True,
        env={**os.environ, "TMPDIR": str(tmp_path)},
        timeout=60,
    )
    assert (ended.returncode, ended.stdout) == (1, "")
    first, second = ended.stderr.splitlines()
    assert first == "hypertare: a defect of hypertare itself: ZeroDivisionError: a thing of two"
    (file,) = tmp_path.iterdir()
    assert re.search(r"report it with (\S+)\.$", second)[1] == str(file)  # type: ignore[index]
    assert "Traceback" in file.read_text() and "in broken" in file.read_text()
