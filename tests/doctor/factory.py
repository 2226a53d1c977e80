"""A made-up machine: files below a directory, and commands that answer as they are set."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from hypertare.base.host_files import Host, Ran

Answers = dict[str, Ran]
QUIET = "cpu  100 0 100 10000 0 0 0 0 0 0"


def make_host(
    root: Path,
    files: dict[str, str] | None = None,
    answers: Answers | None = None,
    later: dict[str, str] | None = None,
    free: int = 10 << 30,
) -> Host:
    """`answers` by a word of the command line; `later` are files as they are a second later."""
    root.mkdir(exist_ok=True)
    write(root, files or {})

    def run(argv: tuple[str, ...], limit_s: float) -> Ran:
        assert limit_s > 0
        line = " ".join(argv)
        named = [answer for word, answer in (answers or {}).items() if word in line]
        return named[0] if named else Ran(None, err=f"{argv[0]} is not installed")

    return Host(
        root=root,
        run=run,
        sleep=lambda _: write(root, later or {}),
        free_bytes=lambda _: free,
        cache=root / "cache",
    )


def write(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = root / name.lstrip("/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def counting(answer: Ran) -> tuple[Callable[[tuple[str, ...], float], Ran], list[tuple[str, ...]]]:
    """A runner that always answers the same, and what it was asked."""
    asked: list[tuple[str, ...]] = []

    def run(argv: tuple[str, ...], limit_s: float) -> Ran:
        asked.append(argv)
        return answer

    return run, asked
