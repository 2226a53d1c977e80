#!/usr/bin/python3
"""What a command might do to the machine around it: each is tried, and what came of it is reported.

It runs where commands run, natively, in containers and in guests, so it is one file that needs nothing
but Python's own library. In its directory lies `baits.json`, which names what the test has laid out
outside. Each attempt is a process of its own, so that none ends or hangs the others. What may only be
judged from outside (a file of the host, written through an overlay) counts as held here.

No attempt can harm a machine that is not confined at all: settings are moved by one or not at all,
devices opened and not written to (but the test's own), calls that would end something are given
arguments that no kernel takes. A call that is refused for its arguments got past the check of rights,
which is what is asked.

One line of JSON on standard output: what held, what got through, what there is not.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import json
import mmap
import os
import re
import resource
import select
import signal
import socket
import stat
import struct
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

LIMIT_S = 60.0
"""For one attempt, in an emulated guest on a busy host; natively each takes milliseconds."""

SHOWN = 110
"""Characters of a reason: what a trial keeps of an output is limited."""

SECRET = re.compile(r"secret|private|_key$")
"""Nobody's to read, and nobody's to try: stable_secret, tcp_fastopen_key."""

CRASHING = "battery-crash"
"""How the process is called that crashes."""

KNOWN = b"known bytes of the host\n" * 400
"""What lies in every bait."""


class Through(Exception):
    """It worked; the text says what was reached."""


class Absent(Exception):
    """There is nothing of the kind on this kernel; the text says why."""


class Came(NamedTuple):
    """What came of an attempt."""

    kind: str
    text: str = ""
    count: int = 0


Baits = dict[str, Any]
ATTEMPTS: dict[str, Callable[[Baits], int | None]] = {}
OURS: set[int] = set()
"""Descriptors that this program opened itself."""
BAITED: list[str] = []
"""Attempts that have a file called after them in each of the host's places."""


def attempt(function: Callable[[Baits], int | None]) -> Callable[[Baits], int | None]:
    ATTEMPTS[function.__name__.replace("_", "-")] = function
    return function


def baited(function: Callable[[Baits], int | None]) -> Callable[[Baits], int | None]:
    BAITED.append(function.__name__.replace("_", "-"))
    return attempt(function)


# --- how things are tried


def main() -> int:
    with open("baits.json") as file:
        baits = json.load(file)
    reported: dict[str, Any] = {"held": [], "through": {}, "absent": {}, "counts": {}}
    took: dict[str, float] = {}
    for name, function in ATTEMPTS.items():
        began = time.monotonic()
        came = forked(lambda function=function: function(baits))
        took[name] = round(time.monotonic() - began, 2)
        if came.count:
            reported["counts"][name] = came.count
        if came.kind == "held":
            reported["held"].append(name)
        else:
            reported[came.kind][name] = came.text[:SHOWN]
    print(json.dumps(reported, separators=(",", ":")), flush=True)
    longest = sorted(took, key=lambda name: -took[name])[:12]
    print(f"{sum(took.values()):.1f} s", {name: took[name] for name in longest}, file=sys.stderr)
    return 0


def forked(job: Callable[[], int | None], limit_s: float = LIMIT_S) -> Came:
    """In a process of its own, which is killed when it takes too long."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        OURS.add(write)
        os.close(read)
        with contextlib.suppress(BaseException):
            os.write(write, json.dumps(judged(job)).encode()[:4000])
        os._exit(0)
    os.close(write)
    heard = b""
    if select.select([read], [], [], limit_s)[0]:
        heard = os.read(read, 4096)
    os.close(read)
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return Came(*json.loads(heard)) if heard else Came("held", "ended without a word")


def judged(job: Callable[[], int | None]) -> Came:
    try:
        return Came("held", "", job() or 0)
    except Through as through:
        return Came("through", str(through))
    except Absent as absent:
        return Came("absent", str(absent))
    except OSError as error:
        if error.errno == errno.ENOSYS:
            return Came("absent", "this kernel has no such system call")
        return Came("held", str(error))


def again(job: Callable[[], int | None]) -> int:
    """In a further process, as one of a new PID namespace or with another root must be."""
    came = forked(job, LIMIT_S / 2)
    if came.kind == "through":
        raise Through(came.text)
    if came.kind == "absent":
        raise Absent(came.text)
    return came.count


LIBC = ctypes.CDLL(None, use_errno=True)

CALL = {
    "mprotect": 10, "shmget": 29, "shmat": 30, "shmctl": 31, "kill": 62, "semget": 64, "semctl": 66,
    "msgget": 68, "msgsnd": 69, "msgctl": 71, "ptrace": 101, "syslog": 103, "setpriority": 141,
    "sched_setparam": 142, "sched_setscheduler": 144, "pivot_root": 155, "adjtimex": 159,
    "acct": 163, "settimeofday": 164, "mount": 165, "umount2": 166, "swapon": 167, "swapoff": 168,
    "reboot": 169, "sethostname": 170, "setdomainname": 171, "iopl": 172, "ioperm": 173,
    "init_module": 175, "delete_module": 176, "quotactl": 179, "sched_setaffinity": 203,
    "lookup_dcookie": 212, "clock_settime": 227, "tgkill": 234, "mq_open": 240, "mq_unlink": 241,
    "kexec_load": 246, "add_key": 248, "keyctl": 250, "ioprio_set": 251, "migrate_pages": 256,
    "unshare": 272, "get_robust_list": 274, "splice": 275, "move_pages": 279, "timerfd_create": 283,
    "fallocate": 285, "rt_tgsigqueueinfo": 297, "perf_event_open": 298, "fanotify_init": 300,
    "prlimit64": 302, "name_to_handle_at": 303, "open_by_handle_at": 304, "clock_adjtime": 305,
    "setns": 308, "process_vm_readv": 310, "process_vm_writev": 311, "kcmp": 312,
    "finit_module": 313, "sched_setattr": 314, "kexec_file_load": 320, "bpf": 321,
    "copy_file_range": 326, "pidfd_send_signal": 424, "io_uring_setup": 425, "open_tree": 428,
    "move_mount": 429, "fsopen": 430, "fsconfig": 431, "fsmount": 432, "pidfd_open": 434,
    "openat2": 437, "pidfd_getfd": 438, "process_madvise": 440, "mount_setattr": 442,
}  # fmt: skip
"""Numbers on x86-64."""

NEWNS, NEWCGROUP, NEWUTS, NEWIPC = 0x20000, 0x2000000, 0x4000000, 0x8000000
NEWUSER, NEWPID, NEWNET = 0x10000000, 0x20000000, 0x40000000
MS_RDONLY, MS_REMOUNT, MS_BIND, MS_REC, MS_PRIVATE, MS_SHARED = 1, 32, 4096, 16384, 1 << 18, 1 << 20
MNT_DETACH = 2
CWD = -100


def call(name: str, *arguments: Any) -> int:
    """A system call by its name: no library between."""
    given = [ctypes.c_long(one) if isinstance(one, int) else one for one in arguments]
    LIBC.syscall.restype = ctypes.c_long
    result = LIBC.syscall(ctypes.c_long(CALL[name]), *given)
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), name)
    return result


def past_the_check(name: str, *arguments: Any) -> None:
    """A call with arguments that nobody takes: refused for want of rights, or for the arguments."""
    try:
        call(name, *arguments)
    except OSError as error:
        if error.errno in (errno.EPERM, errno.EACCES, errno.ENOSYS):
            raise
        raise Through(f"{name}: {errno.errorcode[error.errno]} comes after the rights") from None
    raise Through(name)


def ioctl_in(request: int, path: str, argument: Any, flags: int = os.O_RDONLY) -> None:
    with opened(path, flags) as file:
        fcntl.ioctl(file, request, argument)


@contextlib.contextmanager
def opened(path: str, flags: int, mode: int = 0o600) -> Iterator[int]:
    file = os.open(path, flags | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY, mode)
    try:
        yield file
    finally:
        os.close(file)


def read(path: str) -> str:
    with open(path, errors="replace") as file:
        return file.read()


def write(path: str, text: str) -> None:
    with opened(path, os.O_WRONLY) as file:
        os.write(file, text.encode())


def nest(flags: int = NEWNS) -> None:
    """Into a user namespace of its own, with all rights in it."""
    user, group = os.geteuid(), os.getegid()
    call("unshare", NEWUSER | flags)
    with contextlib.suppress(OSError):
        write("/proc/self/setgroups", "deny")
    write("/proc/self/gid_map", f"0 {group} 1")
    write("/proc/self/uid_map", f"0 {user} 1")


def mount(source: str, target: str, kind: str, flags: int = 0, options: str = "") -> None:
    given = [text.encode() for text in (source, target, kind)]
    call("mount", *given, flags, options.encode())


def spot(name: str) -> str:
    """A directory of one's own, in the work directory."""
    path = f"{os.getcwd()}/spot-{name}"
    os.makedirs(path, exist_ok=True)
    return path


# --- sweeps: what could be opened for writing


def writable_below(root: str, most: int = 5000, depth: int = 9) -> Iterator[str]:
    found = 0
    for place, folders, files in os.walk(root):
        if place.count("/") - root.count("/") >= depth:
            folders.clear()
        folders[:] = [name for name in folders if name not in ("debug", "tracing")]
        for name in files:
            path = f"{place}/{name}"
            with contextlib.suppress(OSError):
                mode = os.lstat(path).st_mode
                if stat.S_ISREG(mode) and mode & 0o222 and not SECRET.search(path):
                    yield path
                    found += 1
            if found >= most:
                return


def sweep(paths: Iterable[str], what: str = "") -> int:
    """Opens each for writing, and writes nothing."""
    tried, could = 0, []
    for path in paths:
        tried += 1
        with contextlib.suppress(OSError), opened(path, os.O_WRONLY):
            could.append(path)
    if could:
        raise Through(f"{what}{len(could)} of {tried}: {', '.join(could[:3])}")
    return tried


SYS = ("kernel", "module", "block", "class/net", "devices/system", "devices/virtual", "bus", "fs",
       "firmware", "power")  # fmt: skip


def below_sys(root: str = "/sys") -> Iterator[str]:
    for name in SYS:
        yield from writable_below(f"{root}/{name}", 150, 7)


@attempt
def proc_sys(baits: Baits) -> int:
    """Every setting below /proc/sys."""
    return sweep(writable_below("/proc/sys"))


@attempt
def sys_files(baits: Baits) -> int:
    """Hundreds of /sys."""
    return sweep(below_sys())


@attempt
def proc_irq(baits: Baits) -> int:
    return sweep(writable_below("/proc/irq"))


@attempt
def proc_bus(baits: Baits) -> int:
    return sweep(writable_below("/proc/bus"))


@attempt
def proc_acpi(baits: Baits) -> int:
    return sweep(writable_below("/proc/acpi"))


@attempt
def proc_others(baits: Baits) -> int:
    """Whatever else of /proc is no process's. What is written to pressure ends with its descriptor."""
    known = ("sys", "irq", "bus", "acpi", "self", "thread-self", "net", "sysrq-trigger", "pressure")
    tried = [n for n in os.listdir("/proc") if not n.isdigit() and n not in known]
    files = [f"/proc/{n}" for n in tried if os.access(f"/proc/{n}", os.F_OK)]
    alone = [p for p in files if stat.S_ISREG(os.lstat(p).st_mode) and os.lstat(p).st_mode & 0o222]
    below = [f for p in files if os.path.isdir(p) for f in writable_below(p)]
    return sweep(alone + below)


@attempt
def sysrq_trigger(baits: Baits) -> int:
    return sweep(["/proc/sysrq-trigger"])


@attempt
def power_state(baits: Baits) -> int:
    return sweep(writable_below("/sys/power"))


@attempt
def module_parameters(baits: Baits) -> int:
    return sweep(p for p in writable_below("/sys/module") if "/parameters/" in p)


@attempt
def kernel_log(baits: Baits) -> None:
    """Reading /proc/kmsg takes lines from who else reads it."""
    with opened("/proc/kmsg", os.O_RDONLY):
        raise Through("/proc/kmsg opened")


# --- settings: written, by one more or the next word


SETTINGS = {
    "swappiness": "/proc/sys/vm/swappiness",
    "vfs-cache-pressure": "/proc/sys/vm/vfs_cache_pressure",
    "dirty-expire": "/proc/sys/vm/dirty_expire_centisecs",
    "huge-pages-overcommit": "/proc/sys/vm/nr_overcommit_hugepages",
    "lease-break-time": "/proc/sys/fs/lease-break-time",
    "printk-burst": "/proc/sys/kernel/printk_ratelimit_burst",
    "core-pattern": "/proc/sys/kernel/core_pattern",
    "core-pipe-limit": "/proc/sys/kernel/core_pipe_limit",
    "binfmt-status": "/proc/sys/fs/binfmt_misc/status",
    "ksm-sleep": "/sys/kernel/mm/ksm/sleep_millisecs",
    "ksm-pages": "/sys/kernel/mm/ksm/pages_to_scan",
    "huge-page-pool": "/sys/kernel/mm/hugepages/hugepages-2048kB/nr_overcommit_hugepages",
    "khugepaged": "/sys/kernel/mm/transparent_hugepage/khugepaged/alloc_sleep_millisecs",
    "shmem-huge-pages": "/sys/kernel/mm/transparent_hugepage/shmem_enabled",
    "new-irq-affinity": "/proc/irq/default_smp_affinity",
    "loop-read-ahead": "/sys/block/{loop}/queue/read_ahead_kb",
}
"""Harmless ones that are really moved; the test outside puts them back."""


def setting(name: str, loop: str) -> str:
    return SETTINGS[name].replace("{loop}", loop)


def moved(held: str, name: str) -> str:
    """Another value that the kernel takes and nobody suffers from: never the one from before, however
    often it is moved.
    """
    if name == "core-pattern":
        return "core.battery"
    if name == "shmem-huge-pages":
        return "within_size" if "[advise]" in held else "advise"
    if name == "new-irq-affinity":
        return "1" if int(held.replace(",", ""), 16) != 1 else "2"
    return str(int(held) + 1)


def move_setting(name: str, baits: Baits) -> None:
    path = setting(name, (baits["loop"] or {"path": "/dev/loop0"})["path"].rpartition("/")[2])
    if not os.path.exists(path):
        raise Absent(f"no {path}")
    held = read(path).strip()
    if name == "binfmt-status":
        # Any word would do harm; what opens can be written.
        sweep([path])
        return
    write(path, moved(held, name))
    if read(path).strip() != held:
        raise Through(f"{path} was {held[:20]}, is {read(path).strip()[:20]}")


def _crash_first() -> None:
    """Before the settings, of which one says what becomes of a crash."""

    @baited
    def crash(baits: Baits) -> None:
        """Ends by a signal that leaves a core; judged outside, where a handler waits."""
        hard = resource.getrlimit(resource.RLIMIT_CORE)[1]
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_CORE, (-1, -1))
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_CORE, (hard, hard))
        pid = os.fork()
        if pid == 0:
            write("/proc/self/comm", CRASHING)
            signal.signal(signal.SIGSEGV, signal.SIG_DFL)
            os.kill(os.getpid(), signal.SIGSEGV)
            os._exit(0)
        os.waitpid(pid, 0)


_crash_first()
for _name in SETTINGS:
    ATTEMPTS[f"setting-{_name}"] = lambda baits, name=_name: move_setting(name, baits)


# --- settings by other ways


def remounted(point: str) -> None:
    mount("none", point, "none", MS_REMOUNT | MS_BIND)


@attempt
def proc_sys_remounted(baits: Baits) -> int:
    """Made writable where it is."""
    remounted("/proc/sys")
    return sweep(writable_below("/proc/sys", 200))


@attempt
def sys_remounted(baits: Baits) -> int:
    remounted("/sys")
    return sweep(below_sys())


@attempt
def proc_sys_remounted_nested(baits: Baits) -> int:
    nest()
    return proc_sys_remounted(baits)


@attempt
def sys_remounted_nested(baits: Baits) -> int:
    nest()
    return sys_remounted(baits)


@attempt
def proc_remounted_whole(baits: Baits) -> int:
    """Not the mount, the file system."""
    mount("proc", "/proc", "proc", MS_REMOUNT)
    return sweep(writable_below("/proc/sys", 200))


@attempt
def mount_attributes(baits: Baits) -> int:
    """The newer call that makes a mount writable."""
    attributes = struct.pack("QQQQ", 0, 1, 0, 0)
    call("mount_setattr", CWD, b"/proc/sys", 0x8000, attributes, len(attributes))
    return sweep(writable_below("/proc/sys", 200))


@attempt
def mount_attributes_nested(baits: Baits) -> int:
    nest()
    return mount_attributes(baits)


def uncovered(point: str, below: Iterable[str]) -> int:
    """What comes to light when a mount is taken away."""
    call("umount2", point.encode(), MNT_DETACH)
    return sweep(below)


@attempt
def uncover_proc_sys(baits: Baits) -> int:
    call("unshare", NEWNS)
    return uncovered("/proc/sys", writable_below("/proc/sys", 200))


@attempt
def uncover_proc_sys_nested(baits: Baits) -> int:
    nest()
    return uncovered("/proc/sys", writable_below("/proc/sys", 200))


@attempt
def uncover_sys_nested(baits: Baits) -> int:
    nest()
    return uncovered("/sys", below_sys())


@attempt
def uncover_dev_nested(baits: Baits) -> None:
    nest()
    call("umount2", b"/dev", MNT_DETACH)
    _devices_below("/dev")


@attempt
def bind_proc_elsewhere(baits: Baits) -> int:
    """The same files by another mount, which may lack what covers them."""
    nest()
    target = spot("bind")
    mount("/proc", target, "none", MS_BIND)
    return sweep(writable_below(f"{target}/sys", 200))


@attempt
def clone_tree(baits: Baits) -> int:
    """A copy of a mount without what is mounted in it, by the newer call."""
    nest()
    tree = call("open_tree", CWD, b"/proc", 1)
    return sweep(writable_below(f"/proc/self/fd/{tree}/sys", 200))


EVERYTHING = NEWNS | NEWPID | NEWNET | NEWIPC | NEWUTS
OWN = re.compile(
    r"/sys/net/|/sys/user/|ns_last_pid|/sys/fs/mqueue/|/(hostname|domainname|auto_msgmni)$"
    r"|/kernel/(shm|msg|sem)|/net/[a-z0-9]+/"
)
"""Of a file system that is mounted afresh in new namespaces, these belong to the namespaces."""


def fresh(kind: str, options: str = "") -> int:
    """Mounts a file system anew, in namespaces of its own, and sees what can be opened there."""

    def look() -> int:
        target = spot("fresh")
        mount(kind, target, kind, 0, options)
        found = (p for p in writable_below(target, 1500, 7) if not OWN.search(p))
        return sweep(found, f"a fresh {kind}: ")

    if kind not in kinds():
        raise Absent(f"this kernel has no {kind}")
    nest(EVERYTHING)
    return again(look)


def kinds() -> set[str]:
    return {line.split("\t")[1].strip() for line in read("/proc/filesystems").splitlines()}


def fresh_directly(kind: str) -> int:
    """The same without a namespace of one's own."""
    if kind not in kinds():
        raise Absent(f"this kernel has no {kind}")
    target = spot("direct")
    mount(kind, target, kind)
    try:
        found = (p for p in writable_below(target, 300, 5) if not OWN.search(p))
        return sweep(found, f"a fresh {kind}: ")
    finally:
        call("umount2", target.encode(), MNT_DETACH)


for _kind in ("proc", "sysfs", "debugfs", "tracefs", "securityfs", "configfs", "efivarfs", "pstore",
              "binder", "selinuxfs", "smackfs", "xenfs", "fusectl"):  # fmt: skip
    ATTEMPTS[f"fresh-{_kind}"] = lambda baits, kind=_kind: fresh(kind)
for _kind in ("proc", "sysfs", "debugfs", "tracefs", "securityfs", "configfs"):
    ATTEMPTS[f"direct-{_kind}"] = lambda baits, kind=_kind: fresh_directly(kind)


@attempt
def fresh_by_newer_calls(baits: Baits) -> int:
    """fsopen and fsmount instead of mount."""

    def look() -> int:
        context = call("fsopen", b"proc", 0)
        call("fsconfig", context, 6, 0, 0, 0)
        made = call("fsmount", context, 0, 0)
        found = (p for p in writable_below(f"/proc/self/fd/{made}/sys", 900) if not OWN.search(p))
        return sweep(found, "a fresh proc: ")

    nest(EVERYTHING)
    return again(look)


@attempt
def fresh_devtmpfs(baits: Baits) -> None:
    if "devtmpfs" not in kinds():
        raise Absent("this kernel has no devtmpfs")
    nest()
    target = spot("devtmpfs")
    mount("devtmpfs", target, "devtmpfs")
    _devices_below(target)


@attempt
def direct_devtmpfs(baits: Baits) -> None:
    if "devtmpfs" not in kinds():
        raise Absent("this kernel has no devtmpfs")
    target = spot("devtmpfs")
    mount("devtmpfs", target, "devtmpfs")
    try:
        _devices_below(target)
    finally:
        call("umount2", target.encode(), MNT_DETACH)


# --- devices


HARMLESS = {"null", "zero", "full", "random", "urandom", "tty", "ptmx"}
UNTOUCHED = re.compile(r"watchdog|tty|console|vcs|hwrng|rtc|cpu_dma|uinput|mei|vsock|hidraw")
"""Opening these does something already: it is asked whether one might."""


def devices(root: str, kind: Callable[[int], bool]) -> Iterator[str]:
    for place, folders, files in os.walk(root):
        folders[:] = [name for name in folders if name not in ("shm", "pts", "mqueue", "fd")]
        for name in files:
            path = f"{place}/{name}"
            with contextlib.suppress(OSError):
                if kind(os.lstat(path).st_mode) and name not in HARMLESS:
                    yield path


def could_open(paths: Iterable[str]) -> int:
    tried, could = 0, []
    for path in paths:
        tried += 1
        if UNTOUCHED.search(path):
            if os.access(path, os.W_OK, effective_ids=True):
                could.append(path)
            continue
        with contextlib.suppress(OSError), opened(path, os.O_WRONLY):
            could.append(path)
    if could:
        raise Through(f"{len(could)} of {tried}: {', '.join(could[:4])}")
    return tried


def _devices_below(root: str) -> int:
    return could_open([*devices(root, stat.S_ISBLK), *devices(root, stat.S_ISCHR)])


@attempt
def block_devices(baits: Baits) -> int:
    """Every one that has a name."""
    return could_open(devices("/dev", stat.S_ISBLK))


@attempt
def character_devices(baits: Baits) -> int:
    """Every one that has a name and is not for everybody."""
    return could_open(devices("/dev", stat.S_ISCHR))


@attempt
def device_files_anywhere(baits: Baits) -> int:
    """Nodes in other directories, in the host's file systems or left by others."""
    roots = ("/run", "/lib/udev", *baits["places"].values())
    return could_open(path for root in roots for path in _nodes(root))


def _nodes(root: str) -> Iterator[str]:
    yield from devices(root, stat.S_ISBLK)
    yield from devices(root, stat.S_ISCHR)


def numbers_of_blocks() -> Iterator[tuple[int, int]]:
    for line in read("/proc/partitions").splitlines()[2:]:
        major, minor = line.split()[:2]
        yield int(major), int(minor)


def made_node(kind: int, major: int, minor: int, places: Iterable[str]) -> Iterator[str]:
    for place in places:
        path = f"{place}/node-{kind}-{major}-{minor}"
        with contextlib.suppress(OSError):
            os.mknod(path, kind | 0o666, os.makedev(major, minor))
            yield path


def where_nodes_go(baits: Baits) -> list[str]:
    return [os.getcwd(), "/dev", "/dev/shm", "/tmp", *baits["places"].values()]


@attempt
def mknod_block(baits: Baits) -> int:
    """Every disk that the kernel names, by a node of one's own."""
    wanted = [*numbers_of_blocks(), *([baits["loop"]["number"]] if baits["loop"] else [])]
    places = where_nodes_go(baits)
    return could_open(
        p for major, minor in wanted for p in made_node(0o060000, major, minor, places)
    )


@attempt
def mknod_character(baits: Baits) -> int:
    """Memory, ports, the log, loop-control, KVM, fuse."""
    wanted = ((1, 1), (1, 4), (1, 11), (10, 237), (10, 232), (10, 229))
    places = where_nodes_go(baits)
    return could_open(
        p for major, minor in wanted for p in made_node(0o020000, major, minor, places)
    )


@attempt
def mknod_nested(baits: Baits) -> int:
    nest()
    mount("tmpfs", spot("nodes"), "tmpfs")
    wanted = [*numbers_of_blocks()]
    where = [spot("nodes")]
    return could_open(
        p for major, minor in wanted for p in made_node(0o060000, major, minor, where)
    )


def write_to_loop(path: str) -> None:
    """The test's own device is the one that is written to."""
    with opened(path, os.O_WRONLY) as file:
        os.pwrite(file, b"changed!" * 64, 4096)
        os.fsync(file)
    raise Through(f"{path} written")


def the_loop(baits: Baits) -> Any:
    if not baits["loop"]:
        raise Absent("the test has no loop device")
    return baits["loop"]


@attempt
def loop_written(baits: Baits) -> None:
    write_to_loop(the_loop(baits)["path"])


@attempt
def loop_written_by_a_node(baits: Baits) -> None:
    major, minor = the_loop(baits)["number"]
    for path in made_node(0o060000, major, minor, where_nodes_go(baits)):
        with contextlib.suppress(OSError):
            write_to_loop(path)


@attempt
def loop_written_by_a_file(baits: Baits) -> int:
    """Nodes that lie in the host's directories, shown with them."""
    the_loop(baits)
    for path in baits["nodes"]:
        with contextlib.suppress(OSError):
            write_to_loop(path)
    return len(baits["nodes"])


@attempt
def loop_mounted(baits: Baits) -> None:
    mount(the_loop(baits)["path"], spot("loop"), "ext4")
    raise Through("mounted")


@attempt
def loop_control(baits: Baits) -> int:
    return could_open(["/dev/loop-control"])


@attempt
def physical_memory(baits: Baits) -> int:
    return could_open(["/dev/mem", "/dev/port", "/dev/kmem"])


@attempt
def kernel_messages(baits: Baits) -> int:
    return could_open(["/dev/kmsg"])


@attempt
def consoles(baits: Baits) -> int:
    return could_open(["/dev/console", "/dev/tty0", "/dev/tty1", "/dev/ttyS0"])


@attempt
def terminal_outside(baits: Baits) -> None:
    """A terminal of the test's own: what comes there is seen by it."""
    write(baits["victim"]["terminal"], "changed")


@attempt
def typed_for_others(baits: Baits) -> None:
    """TIOCSTI puts characters into a terminal's input."""
    for path in ("/dev/tty", baits["victim"]["terminal"]):
        with contextlib.suppress(OSError):
            ioctl_in(0x5412, path, b"x", os.O_RDWR)
            raise Through(path)


# --- the kernel itself


@attempt
def module_loaded(baits: Baits) -> None:
    past_the_check("init_module", b"", 0, b"")


@attempt
def module_loaded_from_a_file(baits: Baits) -> None:
    past_the_check("finit_module", -1, b"", 0)


@attempt
def module_removed(baits: Baits) -> None:
    past_the_check("delete_module", b"hypertare_battery_none", os.O_NONBLOCK)


@attempt
def kernel_replaced(baits: Baits) -> None:
    past_the_check("kexec_load", 0, 0, 0, 0xFFFF)


@attempt
def kernel_replaced_from_a_file(baits: Baits) -> None:
    past_the_check("kexec_file_load", -1, -1, 0, b"", 0xFFFF)


@attempt
def reboot(baits: Baits) -> None:
    past_the_check("reboot", 0x11111111, 0x11111111, 0, 0)


@attempt
def swap_on(baits: Baits) -> None:
    past_the_check("swapon", b"/hypertare-battery/none", 0)


@attempt
def swap_off(baits: Baits) -> None:
    past_the_check("swapoff", b"/hypertare-battery/none")


@attempt
def accounting(baits: Baits) -> None:
    past_the_check("acct", b"/hypertare-battery/none")


@attempt
def quotas(baits: Baits) -> None:
    call("quotactl", 0x80000200, the_loop(baits)["path"].encode(), 0, 0)
    raise Through("turned on")


@attempt
def log_level(baits: Baits) -> None:
    """Of the console, a level that there is not."""
    past_the_check("syslog", 8, 0, 0)


@attempt
def ports(baits: Baits) -> None:
    past_the_check("iopl", 3)


@attempt
def port(baits: Baits) -> None:
    past_the_check("ioperm", 0x80, 1, 1)


@attempt
def counters_of_all(baits: Baits) -> None:
    """perf for the whole machine: a clock of CPU 0, of all processes."""
    attributes = struct.pack("IIQ", 1, 112, 0).ljust(112, b"\0")
    try:
        call("perf_event_open", attributes, -1, 0, -1, 0)
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.EOPNOTSUPP):
            raise Absent("no such counter") from None
        raise
    raise Through("perf_event_open of all processes")


@attempt
def program_in_the_kernel(baits: Baits) -> None:
    """BPF of a kind that watches the kernel: `r0 = 0; exit`."""
    code = ctypes.create_string_buffer(struct.pack("<QQ", 0xB7, 0x95))
    text = ctypes.create_string_buffer(b"GPL")
    where = (ctypes.addressof(code), ctypes.addressof(text))
    attributes = struct.pack("<IIQQ", 2, 2, *where).ljust(128, b"\0")
    past_the_check("bpf", 5, attributes, 128)


@attempt
def opens_of_others(baits: Baits) -> None:
    """fanotify that decides on what others open; nothing is marked."""
    call("fanotify_init", 4, 0)
    raise Through("fanotify_init")


@attempt
def wake_alarm(baits: Baits) -> None:
    call("timerfd_create", 8, 0)
    raise Through("a timer that wakes the machine")


@attempt
def audit(baits: Baits) -> None:
    """Asks for the state of the kernel's audit, which only who may change it is reported."""
    reply = netlink(9, 1000, 0x1 | 0x4, b"", acked=True)
    raise Through(f"answered {reply}")


# --- time and names


@attempt
def clock(baits: Baits) -> None:
    """Sets nothing: without time and zone, the rights are checked all the same."""
    past_the_check("settimeofday", 0, 0)


@attempt
def clock_by_number(baits: Baits) -> None:
    """To what it says: arguments are checked before rights."""
    now = time.clock_gettime_ns(time.CLOCK_REALTIME)
    past_the_check("clock_settime", 0, struct.pack("qq", *divmod(now, 10**9)))


@attempt
def clock_speed(baits: Baits) -> None:
    """A tick that no clock has."""
    past_the_check("adjtimex", struct.pack("Iqqqqiqqqqq", 0x4000, *[0] * 10).ljust(208, b"\0"))


@attempt
def clock_speed_by_number(baits: Baits) -> None:
    past_the_check(
        "clock_adjtime", 0, struct.pack("Iqqqqiqqqqq", 0x4000, *[0] * 10).ljust(208, b"\0")
    )


@attempt
def host_name(baits: Baits) -> None:
    held = os.uname().nodename.encode()
    call("sethostname", b"hypertare-battery", 17)
    call("sethostname", held, len(held))
    raise Through("a name was set")


@attempt
def domain_name(baits: Baits) -> None:
    call("setdomainname", b"(none)", 6)
    raise Through("a name was set")


@attempt
def name_nested(baits: Baits) -> None:
    """In a name space of one's own it may be set; nobody else may see it."""
    before = os.uname().nodename

    def rename() -> None:
        nest(NEWUTS)
        call("sethostname", b"hypertare-battery", 17)

    again(rename)
    if os.uname().nodename != before:
        raise Through("seen outside of its namespace")


# --- mounts


@attempt
def mount_made(baits: Baits) -> None:
    target = spot("tmpfs")
    mount("tmpfs", target, "tmpfs")
    call("umount2", target.encode(), MNT_DETACH)
    raise Through("a tmpfs")


@attempt
def mount_bound(baits: Baits) -> None:
    target = spot("bound")
    mount("/", target, "none", MS_BIND | MS_REC)
    call("umount2", target.encode(), MNT_DETACH)
    raise Through("the root")


@attempt
def mounts_spread(baits: Baits) -> None:
    """A mount made in a namespace of one's own must not be seen outside of it."""
    target = spot("spread")

    def spread() -> None:
        nest()
        mount("none", "/", "none", MS_REC | MS_SHARED)
        mount("tmpfs", target, "tmpfs")
        for place in baits["places"].values():
            with contextlib.suppress(OSError):
                mount("tmpfs", place, "tmpfs")

    again(spread)
    if target in read("/proc/self/mountinfo"):
        raise Through("seen outside of its namespace")


def unfixed(baits: Baits) -> int:
    """What is shown read-only, made writable, and the test's own file there written."""
    lines = [line.split() for line in read("/proc/self/mountinfo").splitlines()]
    fixed = [fields[4] for fields in lines if "ro" in fields[5].split(",")]
    could = []
    for point in fixed:
        with contextlib.suppress(OSError):
            remounted(point)
            could.append(point)
    for path in baits["large"]:
        with contextlib.suppress(OSError):
            scribble(path)
    if could:
        raise Through(f"{len(could)} of {len(fixed)}: {', '.join(could[:3])}")
    return len(fixed)


@attempt
def read_only_mounts(baits: Baits) -> int:
    call("unshare", NEWNS)
    return unfixed(baits)


@attempt
def read_only_mounts_nested(baits: Baits) -> int:
    nest()
    return unfixed(baits)


@attempt
def namespaces_of_control_groups(baits: Baits) -> None:
    call("unshare", NEWCGROUP)
    raise Through("made")


@attempt
def namespaces_of_control_groups_nested(baits: Baits) -> None:
    nest(NEWCGROUP)
    raise Through("made")


@attempt
def mount_namespace(baits: Baits) -> None:
    """Without a user namespace, hence with rights over what was mounted before."""
    call("unshare", NEWNS)
    raise Through("made")


# --- the way out


def lands(prefix: str, name: str, baits: Baits) -> None:
    """Writes to the host's files below another root, and below all that is mounted there."""
    points = ["", "/share", "/run/hypertare/share"]
    with contextlib.suppress(OSError, IndexError):
        points += [line.split()[4] for line in read("/proc/1/mountinfo").splitlines()]
    for point in points:
        for place in baits["places"].values():
            with contextlib.suppress(OSError):
                scribble(f"{prefix}{point}{place}/{name}")


def scribble(path: str) -> None:
    with opened(path, os.O_WRONLY) as file:
        os.pwrite(file, b"changed", 0)


def same(one: str, other: str) -> bool:
    here, there = os.stat(one), os.stat(other)
    return (here.st_dev, here.st_ino) == (there.st_dev, there.st_ino)


def climb(name: str, baits: Baits) -> None:
    """Out of a root by the classical way: a root below, and then up from beside it."""
    held = os.open("/", os.O_PATH | os.O_DIRECTORY)
    os.chroot(spot("root"))
    os.fchdir(held)
    for _ in range(40):
        os.chdir("..")
    top, before = os.stat("."), os.fstat(held)
    os.chroot(".")
    if (top.st_dev, top.st_ino) != (before.st_dev, before.st_ino):
        lands("", name, baits)
        raise Through(f"/ is another: {', '.join(sorted(os.listdir('/'))[:5])}")


@baited
def climbed_out(baits: Baits) -> None:
    climb("climbed-out", baits)


@baited
def climbed_out_nested(baits: Baits) -> None:
    nest()
    climb("climbed-out-nested", baits)


@baited
def root_of_the_first_process(baits: Baits) -> None:
    if same("/proc/1/root/.", "/."):
        return
    lands("/proc/1/root", "root-of-the-first-process", baits)
    raise Through(", ".join(sorted(os.listdir("/proc/1/root/"))[:5]))


def others() -> list[int]:
    """All processes that are seen and not of this battery."""
    mine = {os.getpid(), os.getppid()}
    return [int(n) for n in os.listdir("/proc") if n.isdigit() and int(n) not in mine]


@baited
def roots_of_others(baits: Baits) -> int:
    found = []
    for pid in others():
        with contextlib.suppress(OSError):
            if not same(f"/proc/{pid}/root/.", "/."):
                found.append(pid)
                lands(f"/proc/{pid}/root", "roots-of-others", baits)
    if found:
        raise Through(f"of {found[:5]}")
    return len(others())


@baited
def descriptors_of_others(baits: Baits) -> int:
    """Directories and devices that another process holds open."""
    found, tried = [], 0
    for pid in others():
        with contextlib.suppress(OSError):
            for number in os.listdir(f"/proc/{pid}/fd"):
                tried += 1
                path = f"/proc/{pid}/fd/{number}"
                with contextlib.suppress(OSError):
                    found += [f"{path} {what}" for what in leads_out(path, baits)]
    if found:
        raise Through(f"{len(found)} of {tried}: {', '.join(found[:2])}")
    return tried


def leads_out(path: str, baits: Baits) -> Iterator[str]:
    mode = os.stat(path).st_mode
    if stat.S_ISBLK(mode):
        yield "is a disk"
    if not stat.S_ISDIR(mode):
        return
    lands(f"{path}/.", "descriptors-of-others", baits)
    victim = baits["victim"]["pid"]
    if is_the_victim(f"{path}/{victim}", baits):
        with contextlib.suppress(OSError):
            write(f"{path}/{victim}/oom_score_adj", "7")
        yield "is the host's /proc"
    with contextlib.suppress(OSError):
        if os.path.isdir(f"{path}/proc/1") and not same(f"{path}/.", "/."):
            yield "is another root"


def is_the_victim(folder: str, baits: Baits) -> bool:
    with contextlib.suppress(OSError):
        return baits["token"] in read(f"{folder}/cmdline")
    return False


@baited
def own_descriptors(baits: Baits) -> int:
    """What was left open for this process."""
    found = []
    for number in os.listdir("/proc/self/fd"):
        path = f"/proc/self/fd/{number}"
        with contextlib.suppress(OSError):
            if int(number) > 2 and stat.S_ISDIR(os.stat(path).st_mode):
                lands(f"{path}/.", "own-descriptors", baits)
                found.append(os.readlink(path))
    if found:
        raise Through(f"left open: {', '.join(found)}")
    return len(os.listdir("/proc/self/fd"))


@attempt
def namespaces_of_others(baits: Baits) -> int:
    """Into the namespaces of every process that is seen."""
    tried, kinds_ = 0, ("user", "mnt", "net", "pid", "ipc", "uts", "cgroup")
    for pid in [1, *others()]:
        for kind in kinds_:
            with contextlib.suppress(OSError):
                path = f"/proc/{pid}/ns/{kind}"
                tried += 1
                if os.readlink(path) != os.readlink(f"/proc/self/ns/{kind}"):
                    again(lambda path=path: entered(path))
    return tried


def entered(path: str) -> None:
    with opened(path, os.O_RDONLY) as file:
        call("setns", file, 0)
    raise Through(path)


@attempt
def root_turned(baits: Baits) -> None:
    """pivot_root takes what is now the root to a place where it can be taken away."""
    nest()
    mount("none", "/", "none", MS_REC | MS_PRIVATE)
    target = spot("pivot")
    mount("tmpfs", target, "tmpfs")
    os.mkdir(f"{target}/old")
    before = os.stat("/")
    call("pivot_root", target.encode(), f"{target}/old".encode())
    os.chdir("/old")
    for _ in range(9):
        os.chdir("..")
    if os.path.exists("/old") and (os.stat("/old").st_ino, os.stat("/old").st_dev) != (
        before.st_ino,
        before.st_dev,
    ):
        raise Through("below the root lies another")


@baited
def handles(baits: Baits) -> int:
    """Files of the host by number, from every mount that is seen, past all directories."""
    points = [line.split()[4] for line in read("/proc/self/mountinfo").splitlines()]
    tried = 0
    for point in ["/", *points]:
        for kind, handle in baits["handles"]:
            tried += 1
            with contextlib.suppress(OSError), opened(point, os.O_RDONLY) as place:
                data = bytes.fromhex(handle)
                given = struct.pack("Ii", len(data), kind) + data
                file = call("open_by_handle_at", place, given, os.O_WRONLY)
                os.pwrite(file, b"changed", 0)
                raise Through(f"by {point}")
    return tried


# --- processes outside


def victim(baits: Baits) -> int:
    """The number of a process outside, unless one of these here has the same."""
    pid = baits["victim"]["pid"]
    if os.path.exists(f"/proc/{pid}") and not is_the_victim(f"/proc/{pid}", baits):
        raise Absent("a process inside has the victim's number")
    return pid


def on_victim(*name_and_arguments: Any) -> Callable[[Baits], None]:
    """A call on the victim, whose number stands where None is."""

    def tried(baits: Baits) -> None:
        name, *arguments = name_and_arguments
        pid = victim(baits)
        call(name, *[pid if one is None else one for one in arguments])
        raise Through(name)

    return tried


_PARAMETER = struct.pack("i", 0)
_POINTER = ctypes.create_string_buffer(8)
_LIMITS = struct.pack("QQ", 100, 100)
ATTEMPTS |= {
    "victim-kill": on_victim("kill", None, signal.SIGUSR1),
    "victim-tgkill": on_victim("tgkill", None, None, signal.SIGUSR1),
    "victim-ptrace": on_victim("ptrace", 0x4206, None, 0, 0),
    "victim-priority": on_victim("setpriority", 0, None, 5),
    "victim-io-priority": on_victim("ioprio_set", 1, None, 3 << 13),
    "victim-scheduler": on_victim("sched_setscheduler", None, 3, _PARAMETER),
    "victim-affinity": on_victim("sched_setaffinity", None, 8, struct.pack("Q", 1)),
    "victim-limits": on_victim("prlimit64", None, resource.RLIMIT_NOFILE, _LIMITS, 0),
    "victim-robust-list": on_victim("get_robust_list", None, _POINTER, _POINTER),
    "victim-kcmp": on_victim("kcmp", None, None, 0, 0, 0),
    "victim-pages": on_victim("migrate_pages", None, 64, struct.pack("Q", 1), struct.pack("Q", 1)),
    "victim-pidfd": on_victim("pidfd_open", None, 0),
    "victim-counters": on_victim(
        "perf_event_open", struct.pack("IIQ", 1, 112, 0).ljust(112, b"\0"), None, -1, -1, 0
    ),
}


@attempt
def victim_memory(baits: Baits) -> None:
    """Written by the call for it."""
    ours = ctypes.create_string_buffer(b"changed")
    local = struct.pack("QQ", ctypes.addressof(ours), 7)
    there = struct.pack("QQ", baits["victim"]["address"], 7)
    call("process_vm_writev", victim(baits), local, 1, there, 1, 0)
    raise Through("written")


@attempt
def victim_files(baits: Baits) -> int:
    """Its memory, name, root, limits by the files of /proc."""
    folder = f"/proc/{victim(baits)}"
    return sweep(f"{folder}/{n}" for n in ("mem", "comm", "oom_score_adj", "root", "clear_refs"))


@attempt
def victim_seen(baits: Baits) -> int:
    """No process outside shows in /proc."""
    pids = [name for name in os.listdir("/proc") if name.isdigit()]
    if any(is_the_victim(f"/proc/{pid}", baits) for pid in pids):
        raise Through("it is in /proc")
    return len(pids)


@attempt
def victim_asked_by_io(baits: Baits) -> None:
    """A pipe that is ready reports its owner by a signal."""
    ours, theirs = os.pipe()
    fcntl.fcntl(ours, fcntl.F_SETOWN, victim(baits))
    fcntl.fcntl(ours, fcntl.F_SETFL, os.O_ASYNC)
    os.write(theirs, b"x")
    raise Through("a signal was sent")


# --- figures: who measures is not written into by what is measured

MEASURER = os.getppid()
"""The process that started this program, measures it, and writes the result; a shell's, without one."""

LIE = b'{"record":"result","values":{"elapsed_s":1e-9}}\n'
"""What would be a figure, did anybody take it for one. Each attempt ends before it is written."""


def near() -> Iterator[int]:
    """All processes in sight that are not this program's: of the agent, and of nobody else."""
    for name in os.listdir("/proc"):
        if name.isdigit() and int(name) not in (os.getpid(), os.getppid()):
            yield int(name)


def open_to_us(paths: Iterable[str], flags: int = os.O_WRONLY) -> int:
    tried = 0
    for path in paths:
        tried += 1
        with contextlib.suppress(OSError), opened(path, flags):
            raise Through(path)
    return tried


@attempt
def figures_by_descriptors(baits: Baits) -> int:
    """The measurer's standard output by /proc, and all else that it has open."""
    return open_to_us(f"/proc/{MEASURER}/fd/{number}" for number in range(64))


@attempt
def figures_by_descriptors_of_all(baits: Baits) -> int:
    return open_to_us(f"/proc/{pid}/fd/{number}" for pid in near() for number in range(16))


@attempt
def figures_by_listing(baits: Baits) -> None:
    raise Through(os.readlink(f"/proc/{MEASURER}/fd/1"))


@attempt
def figures_by_threads(baits: Baits) -> int:
    """The same below the measurer's threads."""
    threads = os.listdir(f"/proc/{MEASURER}/task")
    return open_to_us(
        f"/proc/{MEASURER}/task/{one}/fd/{number}" for one in threads for number in (1, 2, 3)
    )


@attempt
def figures_by_copied_descriptors(baits: Baits) -> int:
    measurer = call("pidfd_open", MEASURER, 0)
    for number in range(16):
        with contextlib.suppress(OSError):
            call("pidfd_getfd", measurer, number, 0)
            raise Through(f"descriptor {number}")
    return 16


@attempt
def figures_by_memory(baits: Baits) -> int:
    return open_to_us([f"/proc/{MEASURER}/mem", f"/proc/{MEASURER}/task/{MEASURER}/mem"], os.O_RDWR)


@attempt
def figures_by_memory_read(baits: Baits) -> int:
    return open_to_us(
        [f"/proc/{MEASURER}/{name}" for name in ("mem", "maps", "environ")], os.O_RDONLY
    )


@attempt
def figures_by_memory_calls(baits: Baits) -> None:
    held = ctypes.create_string_buffer(LIE)
    ours = struct.pack("QQ", ctypes.addressof(held), len(LIE))
    theirs = struct.pack("QQ", 1 << 20, len(LIE))
    past_the_check("process_vm_writev", MEASURER, ours, 1, theirs, 1, 0)


@attempt
def figures_by_tracing(baits: Baits) -> None:
    call("ptrace", 0x4206, MEASURER, 0, 0)
    raise Through("seized")


@attempt
def figures_by_attaching(baits: Baits) -> None:
    call("ptrace", 16, MEASURER, 0, 0)
    raise Through("attached")


@attempt
def figures_by_tracing_all(baits: Baits) -> int:
    tried = 0
    for pid in near():
        tried += 1
        with contextlib.suppress(OSError):
            call("ptrace", 0x4206, pid, 0, 0)
            raise Through(f"process {pid}")
    return tried


@attempt
def figures_by_what_was_inherited(baits: Baits) -> int:
    """No descriptor beyond the three standard ones came along, but those of this program itself."""
    known = {os.path.realpath(path) for path in ("baits.json", sys.argv[0])}
    for number in range(3, 256):
        with contextlib.suppress(OSError):
            name = os.readlink(f"/proc/self/fd/{number}")
            is_ours = name in known or number in OURS or name.startswith("/proc/")
            if not is_ours and fcntl.fcntl(number, fcntl.F_GETFL) & (os.O_WRONLY | os.O_RDWR):
                raise Through(f"{number}: {name}")
    return 253


@attempt
def figures_by_the_channel(baits: Baits) -> int:
    """A guest's line to this host."""
    folder = "/dev/virtio-ports"
    named = [f"{folder}/{name}" for name in os.listdir(folder)] if os.path.isdir(folder) else []
    ports = [f"/dev/{name}" for name in os.listdir("/dev") if name.startswith(("vport", "hvc"))]
    return open_to_us([*named, *ports])


@attempt
def figures_by_control_groups(baits: Baits) -> int:
    """Out of the group by which CPU time is counted."""
    places = [line.split(":", 2)[2] for line in read("/proc/self/cgroup").splitlines()]
    return open_to_us(
        f"/sys/fs/cgroup{place}/{name}"
        for place in places
        for name in ("cgroup.procs", "../cgroup.procs", "cpu.max", "cpu.stat", "cpuset.cpus")
    )


@attempt
def figures_by_name(baits: Baits) -> None:
    """A socket without a path that the agent listens at."""
    names = [line.split()[-1] for line in read("/proc/net/unix").splitlines()[1:] if "@" in line]
    for name in names:
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as ours:
            ours.connect("\0" + name[1:])
            if "hypertare" in name:
                raise Through(name)


@attempt
def agent_traced(baits: Baits) -> None:
    """The node's agent, which is not confined."""
    call("ptrace", 0x4206, 1, 0, 0)
    raise Through("the first process")


@attempt
def agent_memory(baits: Baits) -> None:
    with opened("/proc/1/mem", os.O_RDWR):
        raise Through("/proc/1/mem opened")


@attempt
def agent_descriptors(baits: Baits) -> None:
    agent = call("pidfd_open", 1, 0)
    call("pidfd_getfd", agent, 0, 0)
    raise Through("its standard input")


# --- sockets outside


def reached(family: int, kind: int, address: Any) -> None:
    with socket.socket(family, kind) as ours:
        ours.settimeout(1)
        ours.connect(address)
        ours.send(b"changed")
    if kind == socket.SOCK_STREAM:
        raise Through(f"{address!r}")


@attempt
def socket_without_a_path(baits: Baits) -> None:
    reached(socket.AF_UNIX, socket.SOCK_STREAM, "\0" + baits["victim"]["abstract"])


@attempt
def sockets_with_a_path(baits: Baits) -> int:
    paths = baits["victim"]["sockets"]
    for path in paths:
        with contextlib.suppress(OSError):
            reached(socket.AF_UNIX, socket.SOCK_STREAM, path)
    return len(paths)


@attempt
def pipes_with_a_path(baits: Baits) -> int:
    """A reader waits at each; what comes is seen there."""
    for path in baits["victim"]["pipes"]:
        with contextlib.suppress(OSError):
            write(path, "changed")
    return len(baits["victim"]["pipes"])


@attempt
def connection_to_the_host(baits: Baits) -> None:
    for address in ("127.0.0.1", *baits["addresses"]):
        with contextlib.suppress(OSError):
            reached(socket.AF_INET, socket.SOCK_STREAM, (address, baits["victim"]["tcp"]))


@attempt
def datagram_to_the_host(baits: Baits) -> None:
    """Judged outside: whoever sends does not learn whether it came."""
    for address in ("127.0.0.1", *baits["addresses"]):
        with contextlib.suppress(OSError):
            reached(socket.AF_INET, socket.SOCK_DGRAM, (address, baits["victim"]["udp"]))


@attempt
def connection_between_machines(baits: Baits) -> None:
    """AF_VSOCK knows no network namespaces: back to this machine itself."""
    if not baits["victim"]["vsock"]:
        raise Absent("the host has no loopback of vsocks")
    reached(socket.AF_VSOCK, socket.SOCK_STREAM, (1, baits["victim"]["vsock"]))


# --- the network


def netlink(family: int, kind: int, flags: int, body: bytes, acked: bool = True) -> int:
    """Sends one request; an answer that refuses is an OSError."""
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, family) as ours:
        ours.settimeout(2)
        ours.send(struct.pack("IHHII", 16 + len(body), kind, flags, 1, 0) + body)
        answer = ours.recv(65536)
    number = struct.unpack_from("H", answer, 4)[0]
    if acked and number == 2:
        code = -struct.unpack_from("i", answer, 16)[0]
        if code in (errno.EOPNOTSUPP, errno.EPROTONOSUPPORT, errno.EAFNOSUPPORT):
            raise Absent(f"the kernel has none of it: {os.strerror(code)}")
        if code:
            raise OSError(code, os.strerror(code))
    return number


def attribute(kind: int, data: bytes) -> bytes:
    return struct.pack("HH", 4 + len(data), kind) + data + bytes(-len(data) % 4)


ROUTE, MAKE = 0, 0x1 | 0x4 | 0x400
ADDRESS = socket.inet_aton("192.0.2.77")
NETWORK = {
    "link-made": (16, 17, struct.pack("BxHiII", 0, 0, 0, 0, 0)
                  + attribute(3, b"hypertare-b\0") + attribute(18, attribute(1, b"dummy"))),
    "route-made": (24, 25, struct.pack("BBBBBBBBI", 2, 32, 0, 0, 254, 3, 0, 6, 0)
                   + attribute(1, ADDRESS)),
    "rule-made": (32, 33, struct.pack("BBBBBBBBI", 2, 0, 0, 0, 254, 0, 0, 1, 0)
                  + attribute(6, struct.pack("I", 31999))),
    "address-made": (20, 21, struct.pack("BBBBI", 2, 32, 0, 0, 1)
                     + attribute(2, ADDRESS) + attribute(1, ADDRESS)),
    "neighbour-made": (28, 29, struct.pack("BxHiHBB", 2, 0, 1, 0x80, 0, 1)
                       + attribute(1, ADDRESS) + attribute(2, b"\2\0\0\0\0\1")),
}  # fmt: skip


def changed_network(make: int, undo: int, body: bytes) -> None:
    try:
        netlink(ROUTE, make, MAKE, body)
    except OSError as error:
        if error.errno in (errno.EPERM, errno.EACCES):
            raise
        raise Through(f"{errno.errorcode[error.errno or 0]} comes after the rights") from None
    with contextlib.suppress(OSError):
        netlink(ROUTE, undo, 0x1 | 0x4, body)
    raise Through("made")


for _name, _request in NETWORK.items():
    ATTEMPTS[f"network-{_name}"] = lambda baits, request=_request: changed_network(*request)


@attempt
def network_filter(baits: Baits) -> None:
    """A table of nftables, which has to come in a batch."""
    begin = struct.pack("IHHII", 20, 16, 1, 1, 0) + struct.pack("!BBH", 0, 0, 10)
    name = attribute(1, b"hypertare-battery\0")
    table = struct.pack("IHHII", 20 + len(name), 10 << 8, 0x405, 2, 0) + b"\2\0\0\0" + name
    end = struct.pack("IHHII", 20, 17, 1, 3, 0) + struct.pack("!BBH", 0, 0, 10)
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 12) as ours:
        ours.settimeout(2)
        ours.send(begin + table + end)
        answer = ours.recv(65536)
    code = -struct.unpack_from("i", answer, 16)[0]
    if code in (errno.EOPNOTSUPP, errno.EINVAL):
        raise Absent("the kernel has no nftables")
    if code:
        raise OSError(code, os.strerror(code))
    raise Through("a table")


@attempt
def network_link_down(baits: Baits) -> None:
    """The same flags again, for the loopback."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as ours:
        asked = struct.pack("16sH14x", b"lo", 0)
        flags = fcntl.ioctl(ours, 0x8913, asked)
        fcntl.ioctl(ours, 0x8914, flags)
    raise Through("lo")


@attempt
def network_nested(baits: Baits) -> None:
    """In a network of one's own all may be made; nobody else may see it."""

    def make() -> None:
        nest(NEWNET)
        with contextlib.suppress(Through, OSError):
            changed_network(16, 0, NETWORK["link-made"][2])

    again(make)
    if "hypertare-b" in read("/proc/net/dev"):
        raise Through("seen outside of its namespace")


# --- shared memory, queues, keys


@attempt
def shared_segment(baits: Baits) -> None:
    segment = call("shmget", baits["victim"]["ipc"], 0, 0)
    raise Through(f"segment {segment}")


@attempt
def shared_segment_removed(baits: Baits) -> None:
    call("shmctl", baits["victim"]["segment"], 0, 0)
    raise Through("removed")


@attempt
def semaphores(baits: Baits) -> None:
    call("semctl", call("semget", baits["victim"]["ipc"], 0, 0), 0, 16, 7)
    raise Through("set")


@attempt
def queue(baits: Baits) -> None:
    message = struct.pack("q", 1) + b"changed"
    call("msgsnd", call("msgget", baits["victim"]["ipc"], 0), message, 7, 0o4000)
    raise Through("a message")


@attempt
def queue_with_a_name(baits: Baits) -> None:
    call("mq_open", baits["victim"]["queue"].encode(), os.O_WRONLY | os.O_NONBLOCK, 0, 0)
    raise Through("opened")


KEY_UPDATE, KEY_REVOKE, KEY_PERMIT = 2, 3, 5
KEY_CLEAR, KEY_UNLINK, KEY_SEARCH, KEY_READ = 7, 9, 10, 11
SESSION = -3


@attempt
def key_read(baits: Baits) -> None:
    buffer = ctypes.create_string_buffer(100)
    call("keyctl", KEY_READ, baits["key"], buffer, 100, 0)
    raise Through(buffer.value.decode())


@attempt
def key_found(baits: Baits) -> None:
    call("keyctl", KEY_SEARCH, SESSION, b"user", baits["token"].encode(), 0)
    raise Through("in the session's keyring")


@attempt
def key_changed(baits: Baits) -> None:
    call("keyctl", KEY_UPDATE, baits["key"], b"changed", 7, 0)
    raise Through("updated")


@attempt
def key_unlinked(baits: Baits) -> None:
    call("keyctl", KEY_UNLINK, baits["key"], SESSION, 0, 0)
    raise Through("from the session's keyring")


@attempt
def keyring_cleared(baits: Baits) -> None:
    """The one that holds the test's key: another is one's own."""
    call("keyctl", KEY_CLEAR, baits["keyring"], 0, 0, 0)
    raise Through("cleared")


@attempt
def key_opened_to_all(baits: Baits) -> None:
    call("keyctl", KEY_PERMIT, baits["key"], 0x3F3F3F3F, 0, 0)
    raise Through("given all permissions")


@attempt
def key_revoked(baits: Baits) -> None:
    call("keyctl", KEY_REVOKE, baits["key"], 0, 0, 0)
    raise Through("revoked")


# --- control groups


def group_mounts() -> list[str]:
    lines = [line.split() for line in read("/proc/self/mountinfo").splitlines()]
    return [f[4] for f in lines if f[f.index("-") + 1] in ("cgroup", "cgroup2")]


@attempt
def group_made(baits: Baits) -> int:
    """In every hierarchy that is seen, and in one's own group."""
    places, made = group_mounts(), []
    for place in places:
        path = f"{place}/{baits['token']}"
        with contextlib.suppress(OSError):
            os.mkdir(path)
            made.append(path)
            os.rmdir(path)
    if made:
        raise Through(f"{len(made)} of {len(places)}: {made[0]}")
    return len(places)


@attempt
def group_left(baits: Baits) -> int:
    """Out of the group that limits this process, into the uppermost."""
    places, left = group_mounts(), []
    for place in places:
        with contextlib.suppress(OSError):
            write(f"{place}/cgroup.procs", str(os.getpid()))
            left.append(place)
    if left:
        raise Through(f"{len(left)} of {len(places)}: {left[0]}")
    return len(places)


@attempt
def group_settings(baits: Baits) -> int:
    """Limits, shares, the program that is started when a group is empty."""
    return sweep(path for place in group_mounts() for path in writable_below(place, 300))


def fresh_groups(flags: int, name: str) -> int:
    def look() -> int:
        made = []
        for kind, options in group_kinds():
            target = spot("groups")
            with contextlib.suppress(OSError):
                mount(kind, target, kind, 0, options)
                made.append(f"{kind} {options}")
                with contextlib.suppress(OSError):
                    os.mkdir(f"{target}/{name}")
                    os.rmdir(f"{target}/{name}")
                    raise Through(f"a group in a fresh {kind} {options}")
                sweep(writable_below(target, 100), f"a fresh {kind} {options}: ")
        return len(group_kinds())

    nest(EVERYTHING | flags)
    return again(look)


def group_kinds() -> list[tuple[str, str]]:
    lines = read("/proc/cgroups").splitlines()[1:] if os.path.exists("/proc/cgroups") else []
    return [("cgroup2", ""), *(("cgroup", line.split()[0]) for line in lines)]


@attempt
def fresh_control_groups(baits: Baits) -> int:
    return fresh_groups(0, baits["token"])


@attempt
def fresh_control_groups_in_a_namespace(baits: Baits) -> int:
    return fresh_groups(NEWCGROUP, baits["token"])


@attempt
def direct_control_groups(baits: Baits) -> int:
    made = []
    for kind, options in group_kinds():
        target = spot("groups")
        with contextlib.suppress(OSError):
            mount(kind, target, kind, 0, options)
            made.append(options or kind)
            call("umount2", target.encode(), MNT_DETACH)
    if made:
        raise Through(f"mounted: {', '.join(made[:5])}")
    return len(group_kinds())


# --- files of the host: each in its own way, judged outside


def each(name: str, baits: Baits, way: Callable[[str], Any]) -> int:
    """In every place of the host's. What is refused is held; what is done is done in memory."""
    done = 0
    for place in baits["places"].values():
        with contextlib.suppress(OSError):
            way(f"{place}/{name}")
            done += 1
    return done


def flags_set(path: str) -> None:
    """FS_IOC_SETFLAGS: immutable."""
    ioctl_in(0x40086602, path, struct.pack("Q", 0x10))


def punched(path: str) -> None:
    with opened(path, os.O_RDWR) as file:
        call("fallocate", file, 3, 0, 4096)


def mapped(path: str) -> None:
    with opened(path, os.O_RDWR) as file, mmap.mmap(file, 0) as memory:
        memory[:7] = b"changed"
        memory.flush()


def mapped_from_reading(path: str) -> None:
    """Opened for reading, and the shared pages made writable."""
    LIBC.mmap.restype = ctypes.c_void_p
    with opened(path, os.O_RDONLY) as file:
        length = ctypes.c_size_t(4096)
        address = LIBC.mmap(None, length, mmap.PROT_READ, mmap.MAP_SHARED, file, ctypes.c_long(0))
        call("mprotect", address, 4096, mmap.PROT_READ | mmap.PROT_WRITE)
        ctypes.memmove(address, b"changed", 7)


def reopened(path: str) -> None:
    """Opened for reading, then for writing by its descriptor."""
    with opened(path, os.O_RDONLY) as file:
        scribble(f"/proc/self/fd/{file}")


def linked_over(path: str) -> None:
    """A file without a name, given this one's."""
    place = os.path.dirname(path)
    with opened(place, os.O_WRONLY | 0o20200000) as file:
        os.write(file, b"changed")
        os.unlink(path)
        os.link(f"/proc/self/fd/{file}", path, follow_symlinks=True)


def through_a_link(path: str) -> None:
    link = f"{os.getcwd()}/link-{len(path)}-{os.path.basename(path)}"
    os.symlink(path, link)
    scribble(link)


def through_a_second_name(path: str) -> None:
    os.link(path, f"{path}.second")
    scribble(f"{path}.second")


def turned_into_a_link(path: str) -> None:
    """A link in its place, to another of the host's files."""
    os.unlink(path)
    os.symlink(f"{os.path.dirname(path)}/written", path)
    scribble(path)


def sparse_copy(path: str) -> None:
    with opened(f"{path}.copy", os.O_RDWR | os.O_CREAT) as new, opened(path, os.O_RDWR) as file:
        os.write(new, b"changed")
        call("copy_file_range", new, struct.pack("q", 0), file, struct.pack("q", 0), 7, 0)


def spliced(path: str) -> None:
    ours, theirs = os.pipe()
    os.write(theirs, b"changed")
    with opened(path, os.O_WRONLY) as file:
        call("splice", ours, 0, file, 0, 7, 0)


def folder_swapped(path: str) -> None:
    """The directory itself is moved away and another laid in its place."""
    place = os.path.dirname(path)
    os.rename(place, f"{place}.away")
    os.mkdir(place)
    with opened(path, os.O_WRONLY | os.O_CREAT) as file:
        os.write(file, b"changed")


def folder_hidden(path: str) -> None:
    os.chmod(os.path.dirname(path), 0o700)
    os.utime(os.path.dirname(path), (1, 1))


def things_made(path: str) -> None:
    """New entries beside it: a file, a directory, a pipe, a socket."""
    with opened(f"{path}.new", os.O_WRONLY | os.O_CREAT):
        pass
    os.mkdir(f"{path}.folder")
    os.mkfifo(f"{path}.pipe")
    with socket.socket(socket.AF_UNIX) as ours:
        ours.bind(f"{path}.socket")


def truncated_by_name(path: str) -> None:
    os.truncate(path, 3)


def truncated_by_opening(path: str) -> None:
    with opened(path, os.O_WRONLY | os.O_TRUNC):
        pass


def appended(path: str) -> None:
    with opened(path, os.O_WRONLY | os.O_APPEND) as file:
        os.write(file, b"changed")


def by_its_own_root(path: str) -> None:
    scribble(f"/proc/self/root{path}")


def by_its_directory(path: str) -> None:
    scribble(f"/proc/self/cwd/{os.path.relpath(path)}")


def by_climbing(path: str) -> None:
    scribble("/.." * 30 + path)


def with_a_lock(path: str) -> None:
    """A lock that stays, on what may be the host's own file."""
    with opened(path, os.O_RDWR) as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


WAYS: dict[str, Callable[[str], Any]] = {
    "written": scribble,
    "appended": appended,
    "truncated": truncated_by_name,
    "truncated-by-opening": truncated_by_opening,
    "removed": os.unlink,
    "renamed": lambda path: os.rename(path, f"{path}.renamed"),
    "mode-changed": lambda path: os.chmod(path, 0o4777),
    "owner-changed": lambda path: os.chown(path, 1, 1),
    "times-changed": lambda path: os.utime(path, (1, 1)),
    "attribute-changed": lambda path: os.setxattr(path, "user.known", b"changed"),
    "attribute-removed": lambda path: os.removexattr(path, "user.known"),
    "flags-changed": flags_set,
    "punched": punched,
    "mapped": mapped,
    "mapped-from-reading": mapped_from_reading,
    "reopened": reopened,
    "linked-over": linked_over,
    "through-a-link": through_a_link,
    "through-a-second-name": through_a_second_name,
    "turned-into-a-link": turned_into_a_link,
    "copied-over": sparse_copy,
    "spliced": spliced,
    "things-made": things_made,
    "by-its-own-root": by_its_own_root,
    "by-its-directory": by_its_directory,
    "by-climbing": by_climbing,
    "locked": with_a_lock,
    "folder-hidden": folder_hidden,
    "folder-swapped": folder_swapped,
}
for _name, _way in WAYS.items():
    BAITED.append(f"file-{_name}")
    ATTEMPTS[f"file-{_name}"] = lambda baits, name=_name, way=_way: each(f"file-{name}", baits, way)


@baited
def trap_for_the_agent(baits: Baits) -> int:
    """Links in place of what the agent lays afresh and clears: it must not follow them."""
    traps = 0
    for name, place in baits["places"].items():
        for folder in (os.getcwd(), os.environ.get("TMPDIR", "/tmp")):
            with contextlib.suppress(OSError):
                os.symlink(place, f"{folder}/trap-{name}")
                traps += 1
    with contextlib.suppress(OSError):
        os.rename("laid", "laid.away")
        os.symlink(baits["places"]["home"], "laid")
    with contextlib.suppress(OSError):
        os.unlink("trap-for-the-agent")
        os.symlink(f"{baits['places']['home']}/trap-for-the-agent", "trap-for-the-agent")
    return traps


if __name__ == "__main__":
    sys.exit(main())
