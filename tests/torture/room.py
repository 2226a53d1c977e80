"""Where an episode takes place: mounts and a cgroup of its own, so that whatever happens in it happens
to nobody else, and whatever is left in it can be distinguished from what others do on this machine.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hypertare.report.page import charting_library
from tests.integration.lab import TRIALS, Lab, cache, rows, until

_CHECKOUT = Path(__file__).resolve().parents[2]

_MOUNTED = Path("/sys/fs/cgroup")
DISK_SIZE = 24 << 20

_MOUNTS = """
set -e
disk="$1"
size="$2"
shift 2
mount -t tmpfs -o mode=755,size=1m,nr_inodes=64 torture-run /run
mount -t tmpfs torture-shm /dev/shm
# What the run itself needs of the directories that are covered.
for path; do
    mkdir -p "/dev/shm$path"
    mount --bind "$path" "/dev/shm$path"
done
for place in /tmp /var/tmp; do
    mkdir -p "/dev/shm$place"
    mount --rbind "/dev/shm$place" "$place"
done
umount -l /dev/shm
mount -t tmpfs torture-shm /dev/shm
mkdir -p "$disk"
mount -t tmpfs -o size="$size" torture-disk "$disk"
# What a run mounts without making it private first would be seen out here.
mount --make-rshared /
echo ready
exec cat
"""

_ENTER = 'echo $$ > "$1/cgroup.procs" && shift && exec "$@"'
_READ = """
import json, sqlite3, sys
db = sqlite3.connect(f"file:{sys.argv[1]}/run.sqlite?mode=ro", uri=True, timeout=10)
print(json.dumps(db.execute(sys.argv[2]).fetchall()))
"""
_GO = 'cd "$1" && shift && exec "$@"'


class Room:
    """Use as a context manager. Its mounts live as long as a process that does nothing else.

    `shared`: others change settings of this machine meanwhile.
    """

    def __init__(self, lab: Lab, shared: bool = False) -> None:
        self.lab = lab
        self.shared = shared
        _own_cache(lab)
        self.agents: set[int] = set()
        """Host agents that were seen, after which cgroups are named."""
        found = memory_cgroup()
        if found is None:
            raise RuntimeError("there is no cgroup here below which memory can be limited")
        above, self._memory = found
        self.cgroup = above / f"torture-{lab.mark}"

    def __enter__(self) -> Room:
        self.cgroup.mkdir()
        argv = ["unshare", "--mount", "--propagation", "private", "sh", "-c", _MOUNTS, "sh"]
        self._keeper = subprocess.Popen(
            [*argv, str(self._disk), str(DISK_SIZE), *map(str, self.shown)],
            # It ends with whoever holds the other end, however that ends.
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        assert self._keeper.stdout is not None
        if self._keeper.stdout.readline() != b"ready\n":
            self.__exit__()
            raise RuntimeError("a place with mounts of its own cannot be made: are you root?")
        return self

    def __exit__(self, *_: object) -> None:
        assert self._keeper.stdin is not None
        self._keeper.stdin.close()
        self._keeper.wait()
        # What the episode has left it has reported; the machine is to be as it was nevertheless.
        for pid in self.processes():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        until(lambda: not self.processes(), "what is left to end", 10)
        for place in sorted(self.cgroup.rglob("*/"), reverse=True):
            place.rmdir()
        until(self._removed, "the episode's cgroup to go", 10)

    def _removed(self) -> bool:
        with suppress(OSError):
            self.cgroup.rmdir()
        return not self.cgroup.exists()

    @property
    def shown(self) -> list[Path]:
        """What a run needs that lies where in here nothing lies but what it makes."""
        needed = {self.lab.home, _CHECKOUT, Path(sys.prefix), Path(sys.base_prefix), cache()}
        covered = (Path("/tmp"), Path("/var/tmp"))
        return sorted(path for path in needed if any(map(path.is_relative_to, covered)))

    @property
    def _disk(self) -> Path:
        return self.lab.work / "disk"

    @property
    def wrap(self) -> tuple[str, ...]:
        """Begins a command line that is carried out in here."""
        enter = ("sh", "-c", _ENTER, "sh", str(self.cgroup))
        mounts = ("nsenter", f"--mount=/proc/{self._keeper.pid}/ns/mnt")
        return (*enter, *mounts, "sh", "-c", _GO, "sh", str(self.lab.work))

    def at(self, path: str | Path) -> Path:
        """Of an absolute path in here, where it is seen from outside."""
        return Path(f"/proc/{self._keeper.pid}/root{path}")

    @property
    def disk(self) -> Path:
        """A small disk, as seen from outside."""
        return self.at(self._disk)

    @property
    def namespaces(self) -> set[int]:
        """Process ids of those whose namespaces are the room's own."""
        return {self._keeper.pid, os.getpid(), 1}

    def rows(self, run: Path, query: str) -> list[tuple[Any, ...]]:
        """As `lab.rows`, also of a run on the small disk: SQLite follows no way there from outside."""
        if not run.is_relative_to(self.disk):
            return rows(run, query)
        here = self._disk / run.relative_to(self.disk)
        argv = ["nsenter", f"--mount=/proc/{self._keeper.pid}/ns/mnt", sys.executable, "-IS", "-c"]
        read = subprocess.run([*argv, _READ, str(here), query], capture_output=True, check=False)
        return [tuple(row) for row in json.loads(read.stdout)] if read.returncode == 0 else []

    def trials(self, run: Path) -> list[tuple[Any, ...]]:
        return self.rows(run, TRIALS)

    def mounts(self) -> frozenset[str]:
        lines = Path(f"/proc/{self._keeper.pid}/mountinfo").read_text().splitlines()
        found = (line.split(" - ") for line in lines)
        return frozenset(f"{left.split()[4]} ({right.split()[0]})" for left, right in found)

    def processes(self) -> dict[int, str]:
        """All that were started in here, and what those have started, with their command lines.

        A process may change its environment and its parents; it does not leave its cgroup.
        """
        found = {}
        for folder in (self.cgroup, *self.cgroup.rglob("*/")):
            with suppress(OSError):
                for pid in map(int, (folder / "cgroup.procs").read_text().split()):
                    line = Path(f"/proc/{pid}/cmdline").read_bytes()
                    found[pid] = line.replace(b"\0", b" ").decode(errors="replace").strip()
        self.agents.update(pid for pid, line in found.items() if line.endswith("-agent host"))
        return found

    # --- memory

    def limit_memory(self, limit: int | None) -> None:
        text = self._memory.no_limit if limit is None else str(limit)
        (self.cgroup / self._memory.limit).write_text(text)

    def memory(self) -> int:
        return int((self.cgroup / self._memory.usage).read_text())


def _own_cache(lab: Lab) -> None:
    """One in which all is found that was fetched and built, and nobody else writes."""
    charting_library()  # bundled by a machine's first report, which may be this room's
    mine = lab.home / "cache"
    mine.mkdir()
    for path in cache().iterdir():
        if path.is_dir() and path.name != "work":
            (mine / path.name).symlink_to(path)
    lab.env["HYPERTARE_CACHE"] = str(mine)


@dataclass(frozen=True)
class Memory:
    """Names of a cgroup's files about memory."""

    limit: str
    usage: str
    no_limit: str


V1 = Memory("memory.limit_in_bytes", "memory.usage_in_bytes", "-1")
V2 = Memory("memory.max", "memory.current", "max")


def memory_cgroup(mounted: Path = _MOUNTED, of: str | None = None) -> tuple[Path, Memory] | None:
    """The nearest cgroup from this process's own upwards below which memory can be limited: of version 2,
    else of version 1, which may hold the controller. `of`: the text of /proc/self/cgroup.
    """
    lines = (of or Path("/proc/self/cgroup").read_text()).splitlines()
    paths = {names: path.lstrip("/") for _, names, path in (line.split(":", 2) for line in lines)}
    own = mounted / paths.get("", "")
    for place in (own, *own.parents):
        handed_down = place / "cgroup.subtree_control"
        if handed_down.is_file() and "memory" in handed_down.read_text().split():
            return place, V2
    place = mounted / "memory" / paths.get("memory", "")
    return (place, V1) if (place / V1.limit).is_file() else None
