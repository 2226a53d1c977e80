"""This host's files, the programs that are run on it, and attempts. Tests replace `Host`."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from hypertare.base.paths import cache_dir


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


_ATTEMPTS = Path(__file__).with_name("attempts.py")
_NAMESPACES = ("unshare", "--user", "--map-root-user", "--net", "--mount", "--pid", "--kill-child")


@dataclass(frozen=True)
class Ran:
    """How a command ended; `status` is none when it could not be started or took too long."""

    status: int | None
    out: str = ""
    err: str = ""

    @property
    def ok(self) -> bool:
        return self.status == 0

    @property
    def said(self) -> str:
        """The last line of standard error, or of standard output if that is empty."""
        lines = (self.err or self.out).strip().splitlines()
        return lines[-1].strip() if lines else "no message"


Runner = Callable[[tuple[str, ...], float], Ran]


def run(argv: tuple[str, ...], limit_s: float) -> Ran:
    try:
        done = captured(argv, limit_s)
    except FileNotFoundError:
        return Ran(None, err=f"{argv[0]} is not installed")
    except OSError as error:
        return Ran(None, err=f"{argv[0]}: {error.strerror}")
    except subprocess.TimeoutExpired:
        return Ran(None, err=f"{argv[0]} took more than {limit_s:g} s")
    return Ran(done.returncode, done.stdout, done.stderr)


def free_bytes(path: Path) -> int:
    """Free room for the file system that `path` is on, or would be on."""
    there = next(place for place in (path, *path.parents) if place.exists())
    return shutil.disk_usage(there).free


@dataclass(frozen=True)
class CpuUse:
    """What the CPUs did in one second: shares of all their time, and the busiest processes."""

    busy: float
    steal: float
    processes: tuple[tuple[str, float], ...]


@dataclass
class Host:
    """A machine under `root`, with commands run by `run`."""

    root: Path = Path("/")
    run: Runner = run
    sleep: Callable[[float], None] = time.sleep
    free_bytes: Callable[[Path], int] = free_bytes
    cache: Path = field(default_factory=cache_dir)

    def read(self, path: str) -> str | None:
        """A file's text, stripped; none when it is not there or may not be read."""
        try:
            return self.at(path).read_text(encoding="utf-8", errors="replace").strip()
        except OSError:
            return None

    def at(self, path: str) -> Path:
        return self.root / path.lstrip("/")

    def read_all(self, pattern: str) -> dict[Path, str]:
        """The texts of all files of that pattern that can be read; processes may end meanwhile."""
        paths = self.root.glob(pattern.lstrip("/"))
        texts = ((path, self.read(str(path.relative_to(self.root)))) for path in paths)
        return {path: text for path, text in texts if text is not None}

    def attempt(self, what: str, *, inside: bool) -> Ran:
        """Runs the attempt `what` of `attempts.py`; with `inside`, in new namespaces like a bench's."""
        python = (sys.executable, "-I", "-S", str(_ATTEMPTS), what)
        return self.run((*(_NAMESPACES if inside else ()), *python), 10.0)

    @cached_property
    def memory(self) -> dict[str, int]:
        """The values of /proc/meminfo by name; sizes in bytes."""
        found: dict[str, int] = {}
        for line in (self.read("/proc/meminfo") or "").splitlines():
            name, _, value = line.partition(":")
            words = value.split()
            if words and words[0].isdigit():
                found[name] = int(words[0]) * (1024 if words[-1] == "kB" else 1)
        return found

    @cached_property
    def cpu_use(self) -> CpuUse | None:
        """The use of the CPUs, measured over one second at the first access; None if it cannot be read."""
        before, each_before = self._ticks(), self._process_ticks()
        self.sleep(1.0)
        after, each_after = self._ticks(), self._process_ticks()
        spent = [b - a for a, b in zip(before, after, strict=False)]
        # user nice system idle iowait irq softirq steal; guest time is already inside user.
        total = sum(spent[:8])
        if len(spent) < 8 or total <= 0:
            return None
        each = {
            k: (n, t - each_before[k][1]) for k, (n, t) in each_after.items() if k in each_before
        }
        top = sorted(each.values(), key=lambda item: item[1], reverse=True)[:3]
        cpus = max(os.cpu_count() or 1, 1)
        return CpuUse(
            busy=1 - (spent[3] + spent[4] + spent[7]) / total,
            steal=spent[7] / total,
            processes=tuple((name, ticks / total * cpus) for name, ticks in top if ticks > 0),
        )

    def _ticks(self) -> list[int]:
        line = (self.read("/proc/stat") or "").partition("\n")[0]
        return [int(word) for word in line.split()[1:] if word.isdigit()]

    def _process_ticks(self) -> dict[str, tuple[str, int]]:
        found: dict[str, tuple[str, int]] = {}
        for path, text in self.read_all("/proc/[0-9]*/stat").items():
            name, _, rest = text.rpartition(")")
            fields = rest.split()
            if len(fields) > 12 and path.parent.name != str(os.getpid()):
                ticks = int(fields[11]) + int(fields[12])
                found[path.parent.name] = (name.partition("(")[2], ticks)
        return found


def digest_of(path: Path) -> str:
    """In hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


class Digests:
    """Of files that do not change while this process works: each is read once, whichever thread asks."""

    def __init__(self) -> None:
        self._known: dict[Path, str] = {}
        self._lock = threading.Lock()

    def of(self, path: Path) -> str:
        with self._lock:
            known = self._known.get(path)
        if known is None:
            known = digest_of(path)
            with self._lock:
                self._known[path] = known
        return known
