"""What there is on this machine that a run might leave or change: looked at before and after."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tests.integration.lab import cgroups
from tests.torture.room import Room

_COUNTS = re.compile(
    # What the kernel counts there, and what it adjusts by itself.
    r"^/proc/sys/(kernel/random/|fs/(file-nr|inode-|dentry-state|aio-nr|quota/)|kernel/ns_last_pid"
    r"|kernel/pty/nr|kernel/perf_|kernel/hung_task_detect_count|net/netfilter/nf_conntrack_count"
    # Of single links, which are looked at as such.
    r"|net/(ipv4|ipv6|mpls)/(conf|neigh)/(?!all|default))"
)
_CHANGED = ("kernel/mm/hugepages/*/nr_hugepages", "module/kvm*/parameters/*")
"""What a run may change when it is allowed to."""

_OF_SYS = (
    "kernel/mm/transparent_hugepage/*",
    "kernel/mm/transparent_hugepage/*/enabled",
    "kernel/mm/transparent_hugepage/khugepaged/*_to_scan",
    "kernel/mm/transparent_hugepage/khugepaged/*_millisecs",
    "kernel/mm/ksm/run",
    "kernel/mm/ksm/*_to_scan",
    "kernel/mm/ksm/*_millisecs",
    "devices/system/cpu/online",
    "devices/system/cpu/cpu*/cpufreq/scaling_governor",
    "devices/system/cpu/cpu*/online",
    "devices/system/clocksource/*/current_clocksource",
)
HUGE_PAGES = "/sys/kernel/mm/hugepages/"


@dataclass(frozen=True)
class Traces:
    """Everything by a name that can be shown to a person; settings with their values."""

    things: frozenset[str]
    settings: frozenset[tuple[str, str]]

    @classmethod
    def now(cls, room: Room) -> Traces:
        return cls(frozenset(_things(room)), frozenset(_settings(room.shared)))

    def since(self, before: Traces) -> list[str]:
        """What has come, gone or changed."""
        come = [f"{thing} is left" for thing in self.things - before.things]
        gone = [f"{thing} is gone" for thing in before.things - self.things if not _others(thing)]
        was, now = dict(before.settings), dict(self.settings)
        changed = [
            f"setting {path} was {was.get(path)!r} and is {now.get(path)!r}"
            for path in was.keys() | now.keys()
            if was.get(path) != now.get(path)
        ]
        return sorted(come + gone + changed)


def _others(gone: str) -> bool:
    """A mount goes in every namespace when whoever made it removes its directory."""
    kind, place, *_ = gone.split(" ")
    return kind == "mount" and not Path(place).exists()


def _things(room: Room) -> Iterator[str]:
    for pid, line in {**room.lab.processes(), **room.processes()}.items():
        yield f"process {pid} ({line})"
    # What is there may go meanwhile, here and below.
    for place, inner, _ in os.walk(room.cgroup):
        yield from (f"cgroup {place}/{name}" for name in inner)
    for place in cgroups(room.agents):
        yield f"cgroup {place}"
    for path in Path("/sys/class/net").iterdir():
        yield f"link {path.name}"
    for mount in room.mounts():
        yield f"mount {mount}"
    for path in _files(room):
        yield f"file {path}"


def _files(room: Room) -> Iterator[str]:
    """Where nobody else writes."""
    for place in ("/run", "/dev/shm", "/tmp", "/var/tmp"):
        inside = room.at(place)
        for path in _below(inside):
            name = Path(place) / path.relative_to(inside)
            if not any(name.is_relative_to(one) or one.is_relative_to(name) for one in room.shown):
                yield str(name)
    for name in ("home", "tmp"):
        yield from map(str, _below(room.lab.home / name))
    # Of the cache, what is no whole entry.
    mine = room.lab.home / "cache"
    yield from (str(path) for path in mine.iterdir() if not path.is_symlink())
    yield from map(str, mine.glob("work/*"))


def _below(place: Path) -> Iterator[Path]:
    for folder, folders, files in os.walk(place):
        yield from (Path(folder) / name for name in (*folders, *files))


def _settings(shared: bool) -> Iterator[tuple[str, str]]:
    for place, _, names in os.walk("/proc/sys") if not shared else ():
        for name in names:
            path = f"{place}/{name}"
            if not _COUNTS.match(path):
                yield path, _read(path)
    for pattern in _CHANGED if shared else (*_CHANGED, *_OF_SYS):
        for path in Path("/sys").glob(pattern):
            if path.is_file():
                yield str(path), _read(str(path))


def _read(path: str) -> str:
    try:
        # Some block or are written only; none is worth waiting for.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    except OSError as error:
        return f"({error.strerror})"
    try:
        return os.read(descriptor, 1 << 16).decode(errors="replace").strip()
    except OSError as error:
        return f"({error.strerror})"
    finally:
        os.close(descriptor)


_KINDS = ("cgroup", "ipc", "mnt", "net", "pid", "time", "user", "uts")


def namespaces(pids: set[int]) -> set[str]:
    """That these processes are in."""
    found = set()
    for pid in pids:
        for kind in _KINDS:
            with suppress(OSError):
                found.add(str(Path(f"/proc/{pid}/ns/{kind}").readlink()))
    return found


def older_than(moment_s: float) -> set[int]:
    """Processes that were there then, in seconds since boot. The number of a namespace that has gone is
    given to the next: where only later ones are in it, it is not the same any more.
    """
    found = set()
    for place in Path("/proc").iterdir():
        if place.name.isdigit():
            with suppress(OSError):
                fields = (place / "stat").read_text().rpartition(")")[2].split()
                if int(fields[19]) / os.sysconf("SC_CLK_TCK") <= moment_s:
                    found.add(int(place.name))
    return found
