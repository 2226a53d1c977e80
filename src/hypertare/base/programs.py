"""Other programs, run to their end: nothing to read, messages in English, both outputs kept."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path


def captured(
    argv: Sequence[str], limit_s: float, cwd: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """Runs a program; its exit status is for the caller to judge.

    Raises:
        OSError: it cannot be started.
        subprocess.TimeoutExpired: it took longer than `limit_s` seconds, and was killed.
    """
    return subprocess.run(
        argv,
        cwd=cwd,
        env={**os.environ, "LC_ALL": "C"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=limit_s,
        check=False,
    )
