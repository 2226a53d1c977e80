"""A terminal of 80 columns and 24 lines: what a person sees of the product, and what is left to see."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import struct
import subprocess
import termios
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pyte

from tests.integration.lab import PATIENCE_S, Lab

COLUMNS, LINES = 80, 24
_SCROLLED = 10_000
"""Lines that are kept of what has left the screen."""


@dataclass(frozen=True)
class Seen:
    """What stands in the terminal when the command has ended. `scrolled`: lines that left its screen."""

    status: int
    seconds: float
    scrolled: list[str]
    screen: list[str]

    @property
    def lines(self) -> list[str]:
        return [*self.scrolled, *self.screen]

    @property
    def text(self) -> str:
        return "\n".join(self.lines)

    @property
    def words(self) -> str:
        """Unwrapped."""
        return " ".join(self.text.split())


def see(lab: Lab, *argv: str | Path, patience_s: float = PATIENCE_S) -> Seen:
    """Runs `hypertare` in a terminal, to its end. Whatever happens, there is no traceback."""
    return _see(lab, [lab.python, "-m", "hypertare", *map(str, argv)], patience_s)


def see_shell(lab: Lab, command: str, patience_s: float = PATIENCE_S) -> Seen:
    """A line as it is typed into a shell that finds `hypertare`."""
    return _see(
        lab,
        ["sh", "-c", f'hypertare() {{ "{lab.python}" -m hypertare "$@"; }}; {command}'],
        patience_s,
    )


def _see(lab: Lab, argv: Sequence[str], patience_s: float) -> Seen:
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, COLUMNS, 0, 0))
    env = {k: v for k, v in lab.env.items() if k not in ("COLUMNS", "LINES", "NO_COLOR")}
    begun = time.monotonic()
    process = subprocess.Popen(
        argv,
        cwd=lab.work,
        env={**env, "TERM": "xterm-256color"},
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
    )
    os.close(theirs)
    screen = pyte.HistoryScreen(COLUMNS, LINES, history=_SCROLLED)
    _show(ours, pyte.ByteStream(screen), process, begun + patience_s)
    status = process.wait()
    seen = Seen(status, time.monotonic() - begun, _scrolled(screen), _until_empty(screen.display))
    assert "Traceback" not in seen.text, seen.text
    return seen


def _show(ours: int, stream: pyte.ByteStream, process: subprocess.Popen[bytes], end: float) -> None:
    try:
        while True:
            if time.monotonic() > end:
                process.kill()
            if not select.select([ours], [], [], 0.2)[0]:
                continue
            try:
                data = os.read(ours, 65536)
            except OSError:  # nobody holds the other end any more
                return
            if not data:
                return
            stream.feed(data)
    finally:
        os.close(ours)


def _scrolled(screen: pyte.HistoryScreen) -> list[str]:
    return [
        "".join(line[column].data for column in range(COLUMNS)).rstrip()
        for line in screen.history.top
    ]


def _until_empty(display: Sequence[str]) -> list[str]:
    lines = [line.rstrip() for line in display]
    while lines and not lines[-1]:
        lines.pop()
    return lines
