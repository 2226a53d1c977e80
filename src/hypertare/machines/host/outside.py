"""Finds the process of this host in which a given machine runs. Its CPU time is counted as the machine's,
seen from outside.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from hypertare.base.errors import MachineError
from hypertare.study.given import pid_of

_MOST_BYTES = 1 << 16
_MOST_PROCESSES = 100_000
_MOST_NAMED = 5


def process_of(outside: str, proc: Path = Path("/proc"), own: int | None = None) -> int:
    """The process that `outside` of a machine means.

    Args:
        outside: `pid:4711`, or words of its command line.
        proc: where processes are looked for.
        own: this process, whose command line may have the words too, as have those above and below it.

    Raises:
        MachineError: there is none, or several of which none is above all others.
    """
    processes = _processes(proc)
    if (wanted := pid_of(outside)) is not None:
        if wanted not in processes:
            raise MachineError(
                f"outside = {outside!r}: this host has no process {wanted}.",
                "Is the machine on this host, and running? Or name words of its process's command line.",
            )
        return wanted
    own = os.getpid() if own is None else own
    ours = {own, *_above(processes, own)}
    ours |= {pid for pid in processes if own in _above(processes, pid)}
    found = [pid for pid, (_, words) in processes.items() if outside in words and pid not in ours]
    # What a process has started may have its words.
    roots = [pid for pid in found if not any(one in found for one in _above(processes, pid))]
    if len(roots) == 1:
        return roots[0]
    if not roots:
        raise MachineError(
            f"outside = {outside!r}: no process of this host has that in its command line.",
            "Is the machine on this host, and running? `ps -ef` shows them, as does pid:NUMBER.",
        )
    named = ", ".join(map(str, roots[:_MOST_NAMED]))
    raise MachineError(
        f"outside = {outside!r}: {len(roots)} processes of this host have that in their command lines "
        f"({named}).",
        "Give more of its words, or its number: outside = 'pid:NUMBER'.",
    )


def _processes(proc: Path) -> dict[int, tuple[int, str]]:
    """Returns parent and command line of all processes by number, in ascending order."""
    found = {}
    numbers = sorted(int(entry.name) for entry in proc.iterdir() if entry.name.isdigit())
    for pid in numbers[:_MOST_PROCESSES]:
        # One that ends meanwhile is simply not there.
        with contextlib.suppress(OSError, ValueError, IndexError):
            # proc_pid_stat(5): the name may hold anything, so it ends at the last parenthesis.
            parent = int(_read(proc / str(pid) / "stat").rpartition(")")[2].split()[1])
            words = _read(proc / str(pid) / "cmdline").rstrip("\0").replace("\0", " ")
            found[pid] = parent, words
    return found


def _read(path: Path) -> str:
    with path.open("rb") as file:
        return file.read(_MOST_BYTES).decode(errors="replace")


def _above(processes: Mapping[int, tuple[int, str]], pid: int) -> Iterator[int]:
    """Its parent, that one's, and so on."""
    seen = {pid}
    while pid in processes and processes[pid][0] not in seen:
        pid = processes[pid][0]
        seen.add(pid)
        yield pid
