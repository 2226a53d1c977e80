"""The host as it is: what must be the same before and after."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import shutil
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path

from tests.battery.inside import SECRET, below_sys, writable_below

Snapshot = dict[str, str]
"""What is looked at, and how it was."""

RESTLESS = re.compile(
    "|".join(
        (
            r"/kernel/random/",  # a new number each time, or what is in the pool
            r"/kernel/ns_last_pid$|/kernel/pty/nr$",  # count what others start
            r"/fs/(inode-nr|inode-state|dentry-state|file-nr|aio-nr)$",
            r"/fs/quota/|/fs/nfs/|/fs/inotify/",
            r"/netfilter/nf_conntrack_count$",
            r"/kernel/(perf_event_max_sample_rate|perf_cpu_time)",  # the kernel's own doing under load
            r"/net/(core|ipv4)/.*(_hash_entries|udp_mem|tcp_mem)$",
            r"/(uevent|wakeup_count|autosuspend|runtime_|stat|inflight|state_synced|time_in_state)",
            r"/(slab|cgroup|fscaps|irq|uids|boot_params|btf)/",  # counters, or what never changes
            r"/power/(wakeup|runtime|pm_)",
            r"/(scaling_cur_freq|cpuinfo_cur_freq|throttle_count|energy_)",
            r"/ksm/(pages_(shared|sharing|skipped|unshared|volatile|scanned)|full_scans|stable|general_profit|ksm_zero)",
            r"/khugepaged/(full_scans|pages_collapsed)|/node/.*/(vmstat|meminfo|numastat|numa)",
            r"/hugepages/.*/(free|resv|surplus)",
            r"/statistics/|/carrier|/refcnt|/initsize|/holders/|/memory/|/stats/",
            r"/nr_hugepages(_mempolicy)?$",  # lent to other runs; `inside` tries to open it
            r"/bdi/",  # shares of the memory that is free
            r"/(mm_stat|io_stat|bd_stat|debug_stat|hw_sector|compact)$",
        )
    )
)
"""Changes by itself, or by other work on this machine."""

LISTED = ("/dev", "/run", "/tmp", "/var/tmp", "/dev/shm", "/var/crash", "/var/lib/systemd/coredump")


def take(mark: str, places: list[Path]) -> Snapshot:
    """Of others' work on this machine there is only what carries the mark."""
    return {
        **settings(),
        **network(),
        **mounts(mark),
        **groups(mark),
        **listings(mark),
        **modules(),
        **files(places),
    }


def differences(before: Snapshot, after: Snapshot) -> list[str]:
    both = sorted(before.keys() | after.keys())
    return [
        f"{what}: was {before.get(what, 'not there')[:120]}, is {after.get(what, 'not there')[:120]}"
        for what in both
        if before.get(what) != after.get(what)
    ]


def settings() -> Snapshot:
    paths = [*writable_below("/proc/sys"), *below_sys(), "/proc/irq/default_smp_affinity"]
    return {path: contents(Path(path)) for path in paths if not skipped(path)}


def skipped(path: str) -> bool:
    return bool(RESTLESS.search(path) or SECRET.search(path))


def contents(path: Path) -> str:
    """What a small file holds; a reason where it may not be read."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        try:
            return os.read(file, 4096).decode(errors="replace").strip()
        finally:
            os.close(file)
    except OSError as error:
        return f"({error.strerror})"


def network() -> Snapshot:
    """What `ip` shows, without what ages."""
    if not shutil.which("ip"):
        return {}
    found = {}
    for what in ("link", "address", "route", "rule", "netns"):
        for family in ("-4", "-6"):
            shown = subprocess.run(["ip", family, what, "show"], capture_output=True, text=True)
            found[f"ip {family} {what}"] = re.sub(
                r"(valid_lft|preferred_lft|expires) \S+", "", shown.stdout
            )
    return found


def mounts(mark: str) -> Snapshot:
    lines = Path("/proc/self/mountinfo").read_text().splitlines()
    return {"mounts": "\n".join(" ".join(line.split()[2:]) for line in sorted(lines))}


def groups(mark: str) -> Snapshot:
    made = [
        f"{place}/{name}"
        for place, folders, _ in os.walk("/sys/fs/cgroup")
        for name in folders
        if mark in name
    ]
    return {"control groups": "\n".join(sorted(made))}


def listings(mark: str) -> Snapshot:
    """All of /dev; elsewhere others work, too: what is new there and ours."""
    found = {"/dev all": "\n".join(sorted(nodes(Path("/dev"))))}
    for place in LISTED:
        if Path(place).is_dir():
            names = [name for name in os.listdir(place) if mark in name]  # noqa: PTH208
            found[f"{place} ours"] = "\n".join(sorted(names))
    return found


def nodes(root: Path) -> Iterator[str]:
    for place, folders, names in os.walk(root):
        folders[:] = [name for name in folders if name not in ("pts", "shm", "mqueue", "fd")]
        for name in names:
            with contextlib.suppress(OSError):
                found = (Path(place) / name).lstat()
                yield f"{place}/{name} {oct(found.st_mode)} {found.st_uid} {found.st_rdev}"


def modules() -> Snapshot:
    path = Path("/proc/modules")
    names = path.read_text().splitlines() if path.exists() else []
    swaps = Path("/proc/swaps").read_text()
    return {"modules": "\n".join(sorted(line.split()[0] for line in names)), "swaps": swaps}


def files(places: list[Path]) -> Snapshot:
    """Everything in these places but when it was last read."""
    found = {}
    for place in places:
        for path in [place, *sorted(place.rglob("*"))]:
            found[str(path)] = described(path)
    return found


def described(path: Path) -> str:
    held = path.lstat()
    reported = [
        oct(held.st_mode),
        held.st_uid,
        held.st_gid,
        held.st_nlink,
        held.st_mtime_ns,
        held.st_rdev,
    ]
    if stat.S_ISREG(held.st_mode):
        reported += [held.st_size, held.st_ino, hashlib.sha256(path.read_bytes()).hexdigest()[:16]]
        reported += [(name, os.getxattr(path, name).hex()) for name in os.listxattr(path)]
    if stat.S_ISLNK(held.st_mode):
        reported.append(str(path.readlink()))
    return json.dumps(reported)
