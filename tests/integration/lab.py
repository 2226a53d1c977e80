"""The product as a user runs it: processes, what they say, and what they leave behind."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests import commands

MARK = "HYPERTARE_TEST_MARK"
PATIENCE_S = 400.0
"""For anything to happen on a loaded machine; nothing waits that long when all is well."""

IN_GUEST = "set -- $(head -n 1 /proc/meminfo); [ $2 -lt 262144 ]"
"""A shell test that holds in a guest with less than 256 MiB of memory, and on no host."""

NEW_PYTHON = ("env",)
"""Wraps a command so that it starts a Python of its own, with another seed of hashes and with the limits of
this moment (`tests.commands`).
"""

OF_A_TEST = ("pytest-of-", "hypertare-battery-")
"""How directories begin that tests have for themselves."""

GUEST = r"^qemu-system.* -append "


def until(holds: Callable[[], Any], what: str, limit_s: float = PATIENCE_S) -> Any:
    """Waits until something holds, and gives it."""
    deadline = (begun := time.monotonic()) + limit_s
    while not (found := holds()):
        assert time.monotonic() < deadline, f"waited {limit_s:g} s in vain: {what}"
        pause_after(begun)
        begun = time.monotonic()
    return found


def pause_after(begun: float) -> None:
    """Pauses four times as long as the last look took, from 10 to 100 ms: looks of up to 25 ms take a fifth
    of a CPU at most.
    """
    time.sleep(min(max(0.01, 4 * (time.monotonic() - begun)), 0.1))


@dataclass(frozen=True)
class Ran:
    status: int
    out: str
    err: str
    seconds: float = 0.0

    @property
    def said(self) -> str:
        """Both outputs, unwrapped: as wide as they come."""
        return " ".join(f"{self.out} {self.err}".split())

    @property
    def json(self) -> Any:
        return json.loads(self.out)


@dataclass
class Lab:
    """A user with a home, a place for temporary files, and a mark on all their processes."""

    home: Path
    env: dict[str, str] = field(default_factory=dict)
    mark: str = field(default_factory=lambda: uuid.uuid4().hex)
    python: str = sys.executable
    virtual: set[str] = field(default_factory=set)
    """Names of its studies in virtual time."""

    def __post_init__(self) -> None:
        for name in ("home", "tmp", "work"):
            (self.home / name).mkdir(parents=True, exist_ok=True)
        # A `make` that finds itself below another says so, in lines of its own.
        theirs = ("XDG_", "PYTEST", "MAKE", "MFLAGS", "OPENBLAS")
        kept = {k: v for k, v in os.environ.items() if not k.startswith(theirs)}
        kept.pop("PYTHONDONTWRITEBYTECODE", None)
        self.env = {
            **kept,
            "HOME": str(self.home / "home"),
            "TMPDIR": str(self.home / "tmp"),
            "COLUMNS": "200",
            # The guest kernel was fetched at set-up; a home of one's own has no cache yet.
            "HYPERTARE_CACHE": str(cache()),
            MARK: self.mark,
            **self.env,
        }

    @property
    def work(self) -> Path:
        return self.home / "work"

    def start(self, *argv: str | Path, wrap: tuple[str, ...] = (), **env: str) -> Started:
        """Starts `hypertare`. Tests run side by side, so a run in virtual time boots one machine at a time
        unless the test asks for more.
        """
        words = [str(word) for word in argv]
        is_virtual = any(Path(word).name in self.virtual for word in words)
        if is_virtual and words[0] == "run" and not {"--jobs", "--cluster"} & {*words}:
            words += ["--jobs", "1"]
        return Started(self, words, env, wrap)

    def run(
        self,
        *argv: str | Path,
        wrap: tuple[str, ...] = (),
        patience_s: float = PATIENCE_S,
        **env: str,
    ) -> Ran:
        """Runs `hypertare` to its end. Whatever happens, there is no traceback."""
        return self.start(*argv, wrap=wrap, **env).end(patience_s)

    def study(self, text: str, name: str = "study.toml") -> Path:
        """Writes it down. A kernel that is emulated spends a quarter of its boot on a check of all its page
        tables before it protects itself; it is spared that where the study says nothing of the kernel.
        """
        if re.search('= "(emulated|tcg)"$', text, re.MULTILINE) and "kernel_args" not in text:
            text = text.replace("[sut]\n", '[sut]\nkernel_args = ["rodata=off"]\n', 1)
        is_virtual = 'machine = "emulated"' in text and 'clock = "wall"' not in text
        (self.virtual.add if is_virtual else self.virtual.discard)(name)
        path = self.work / name
        path.write_text(text)
        return path

    # --- what there is of ours on this machine

    def processes(self) -> dict[int, str]:
        """Ours and their descendants, by id, with their command lines."""
        return dict(marked(self.mark))

    def find(self, pattern: str) -> int | None:
        """The process whose command line matches."""
        return next((p for p, line in self.processes().items() if re.search(pattern, line)), None)

    def kill(self, pid: int) -> None:
        os.kill(pid, signal.SIGKILL)

    def _is_ours(self, place: str) -> bool:
        """Other tests mount in directories of their own at the same time."""
        folders = Path(place).parents
        others = any(folder.name.startswith(OF_A_TEST) for folder in folders)
        return self.home in folders or not others

    def assert_nothing_left(self, before: Traces) -> None:
        """No process (hence no namespace), no mount, no link, no cgroup, no temporary file."""
        until(lambda: not self.processes(), f"all to end: {self.processes()}", 10)
        agents = before.agents
        until(lambda: not cgroups(agents), f"cgroups to go: {cgroups(agents)}", 5)
        after = Traces.now()
        assert [place for place in after.mounts ^ before.mounts if self._is_ours(place)] == []
        assert after.links == before.links
        assert list((self.home / "tmp").iterdir()) == []


class Started:
    """A `hypertare` under way."""

    def __init__(
        self, lab: Lab, words: list[str], env: dict[str, str], wrap: tuple[str, ...] = ()
    ) -> None:
        self.lab = lab
        self._begun = time.monotonic()
        self._out = (lab.home / f"out-{uuid.uuid4().hex}").open("w+b")
        self._err = (lab.home / f"err-{uuid.uuid4().hex}").open("w+b")
        self.process = commands.start(
            *words,
            folder=lab.work,
            env={**lab.env, **env},
            out=Path(self._out.name),
            err=Path(self._err.name),
            python=(*wrap, lab.python) if wrap or lab.python != sys.executable else (),
        )

    def until(self, holds: Callable[[], Any], what: str) -> Any:
        """Waits for something that happens while it runs."""

        def holds_or_ended() -> Any:
            found = holds()
            assert found or self.process.poll() is None, f"{what}: it ended: {self.end()}"
            return found

        return until(holds_or_ended, what)

    def until_trials(self, run: Path, count: int) -> None:
        self.until(lambda: len(trials(run)) >= count, f"{count} trials")

    def until_guest(self) -> int:
        return self.until(lambda: self.lab.find(GUEST), "a guest to be started")

    def agents(self) -> set[int]:
        """Host agents, after which cgroups are named."""
        return {p for p, line in self.lab.processes().items() if line.endswith("-agent host")}

    def stop(self, number: signal.Signals) -> float:
        """Sends a signal that ends it, and gives the seconds that this took."""
        begun = time.monotonic()
        self.process.send_signal(number)
        self.process.wait(PATIENCE_S)
        return time.monotonic() - begun

    def end(self, patience_s: float = PATIENCE_S) -> Ran:
        try:
            status = self.process.wait(patience_s)
        except subprocess.TimeoutExpired:
            self.process.kill()
            status = self.process.wait()
        ran = Ran(status, _text(self._out), _text(self._err), time.monotonic() - self._begun)
        assert "Traceback" not in ran.out + ran.err, ran.err
        return ran

    def said(self) -> str:
        """What it has said so far on its standard error."""
        return Path(self._err.name).read_text(errors="replace")

    @property
    def output(self) -> bytes:
        """Standard output as it is."""
        self._out.seek(0)
        return self._out.read()


def _text(file: Any) -> str:
    file.seek(0)
    return file.read().decode(errors="replace")


@dataclass(frozen=True)
class Traces:
    """What a run might leave on this machine."""

    mounts: frozenset[str]
    links: frozenset[str]
    agents: set[int] = field(default_factory=set, compare=False)

    @classmethod
    def now(cls) -> Traces:
        lines = Path("/proc/self/mountinfo").read_text().splitlines()
        return cls(
            frozenset(line.split(" ", 5)[4] for line in lines),
            frozenset(path.name for path in Path("/sys/class/net").iterdir()),
        )


def marked(mark: str) -> Iterator[tuple[int, str]]:
    needle = f"{MARK}={mark}".encode()
    for place in Path("/proc").iterdir():
        if not place.name.isdigit():
            continue
        try:
            if needle in (place / "environ").read_bytes().split(b"\0"):
                line = (place / "cmdline").read_bytes().replace(b"\0", b" ").decode().strip()
                yield int(place.name), line
        except OSError:
            continue


def cgroups(agents: set[int]) -> list[Path]:
    """Directories named after these agents, in every hierarchy."""
    found = []
    for place, folders, _ in os.walk("/sys/fs/cgroup"):
        for name in folders:
            parts = name.split("-")
            if parts[0] == "hypertare" and len(parts) == 3 and int(parts[1]) in agents:
                found.append(Path(place) / name)
    return found


def cache() -> Path:
    from hypertare.base import paths

    return paths.cache_dir()


def own_cache(lab: Lab, name: str, *, but: str = "") -> str:
    """All of the shared cache but its records, and but one kind; with its locks, for what is shared is made
    by one.
    """
    from hypertare.base import paths

    shared, own = paths.cache_dir(), lab.home / name
    own.mkdir()
    (shared / "lock-moving").touch()
    (own / "lock-moving").symlink_to(shared / "lock-moving")
    (own / "locks").mkdir()
    for kind in (
        "names",
        "packages",
        "sources",
        "kernels",
        "modules",
        "images",
        "emulators",
        "scripts",
    ):
        for folder in (kind, f"locks/{kind}") if kind != but else ():
            (shared / folder).mkdir(parents=True, exist_ok=True)
            (own / folder).symlink_to(shared / folder)
    return str(own)


def falsify(entry: Path) -> None:
    """Makes kept records such as another agent may have left, sound in themselves."""
    records = entry / "records.jsonl"
    before = records.read_bytes()
    records.write_bytes(before.replace(b'"uptime_s":', b'"uptime_s":1', 1))
    digests = [hashlib.sha256(content).hexdigest() for content in (before, records.read_bytes())]
    meta = entry / "entry.json"
    meta.write_text(meta.read_text().replace(*digests))


# --- runs


def rows(run: Path, query: str) -> list[tuple[Any, ...]]:
    """What a run's file holds, also while it is written; nothing when it is not there yet."""
    try:
        db = sqlite3.connect(f"{(run / 'run.sqlite').as_uri()}?mode=ro", uri=True, timeout=10)
        try:
            return db.execute(query).fetchall()
        finally:
            db.close()
    except sqlite3.OperationalError:
        return []


TRIALS = (
    "SELECT id, block, platform, cell ->> 'workload', kind, status, error FROM trial ORDER BY id"
)


def trials(run: Path) -> list[tuple[Any, ...]]:
    """Of every trial: id, block, platform, workload, kind, status, error."""
    return rows(run, TRIALS)


def statuses(run: Path, platform: str, workload: str) -> set[str]:
    return {t[5] for t in trials(run) if t[2] == platform and t[3] == workload}


def reported(folder: Path) -> list[str]:
    """All that a run's file holds in its order, as JSON, but for the host's time of day."""
    from hypertare.runs.store import Store

    with Store.open(folder) as store:
        lines = [record.model_dump_json() for boot, bench in store.benches() for record in bench]
        for trial in store.trials():
            lines.append(repr(trial))
            lines += [record.model_dump_json() for record in store.records(trial.planned.id)]
        return lines


def fingerprints(run: Path) -> set[str]:
    """Of an emulated machine's trials: all that decides what they report."""
    return {found for (found,) in rows(run, "SELECT DISTINCT fingerprint FROM trial")}


def assert_repeats(run: Path, part: Path) -> None:
    """A run of some of its levels had nothing but batches of the run's: one that is run afresh and reports
    something else ends a run with status 5.
    """
    again, known = fingerprints(part), fingerprints(run)
    assert again and None not in known and again < known


def summary(run: Path) -> Any:
    return json.loads((run / "summary.json").read_text())


@contextmanager
def without(lab: Lab, program: str) -> Iterator[str]:
    """A PATH on which everything can be found but one program."""
    place = lab.home / f"without-{program}"
    place.mkdir()
    for folder in reversed(os.environ["PATH"].split(":")):
        if Path(folder).is_dir():
            for found in Path(folder).iterdir():
                link = place / found.name
                if found.name != program and not link.is_symlink():
                    link.symlink_to(found)
    yield str(place)
    shutil.rmtree(place)
