"""The agent at a path of one length, wherever hypertare lies.

A program sees the path by which it was started: it is on its stack, and the C library and Rust's runtime
read it in /proc/self/exe and /proc/self/maps before `main`. How long it is decides where what follows
lies in memory, and so how often its translation misses: in the fourth or fifth digit.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hypertare.base import paths
from hypertare.base.errors import MachineError

LENGTH = 240
"""Of the path, in bytes. Below 255, the longest name in a directory, so that one such name fills it up."""


@contextmanager
def copied() -> Iterator[Path]:
    """A copy of the agent, gone when this is left.

    Raises:
        MachineError: there is no agent, or no place for its copy.
    """
    source = paths.agent_binary()
    with tempfile.TemporaryDirectory(prefix="hypertare-agent-") as folder:
        within = Path(folder).resolve()
        missing = LENGTH - len(os.fsencode(within / "x" / paths.AGENT)) + 1
        if missing < 1:
            raise MachineError(
                f"The path of {tempfile.gettempdir()} is too long.",
                "Name a place with TMPDIR whose path is shorter.",
            )
        path = within / ("x" * missing) / paths.AGENT
        try:
            path.parent.mkdir()
            shutil.copy(source, path)
        except OSError as error:
            raise MachineError(
                f"The agent cannot be copied to {folder}: {error.strerror}.",
                "Make room there, or name another place with TMPDIR.",
            ) from error
        if not os.access(path, os.X_OK):
            raise MachineError(
                f"What lies in {tempfile.gettempdir()} may not be executed.",
                "Name a place with TMPDIR that is not mounted noexec.",
            )
        yield path
