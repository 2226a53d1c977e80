"""Boots of emulated machines: what one needs, what comes out of it, and who carries several out.

The agent starts QEMU in namespaces without a network, and it dies with this process. The plan goes
in, and records come out, through files in memory that have no name: nothing can be left of them.
"""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import BinaryIO, Protocol

from hypertare.base.arch import ARCH
from hypertare.base.errors import HypertareError, MachineError
from hypertare.machines.image import cpio
from hypertare.protocol.constants import AGENT_PREFIX, MAX_CONSOLE_LINES, PLAN_FILE, REFUSED

_MOST_TEARDOWN = 4096
_LOOK_S = 1.0
_GOING_DOWN_S = 3.0
_SPEAKERS = (AGENT_PREFIX, ARCH.qemu)
_NOISE = "is not connected to host network"
"""QEMU warns of a hub that nothing of the host is on, which is what it is for."""


@dataclass(frozen=True)
class BootFiles:
    """The files of one boot. Without `emulator` it is the distribution's QEMU. `runtime` is a directory
    with the emulator's libraries and firmware, for a host that may lack them.
    """

    agent: Path
    kernel: Path
    initramfs: tuple[Path, ...]
    hypervisor: Path | None = None
    emulator: Path | None = None
    runtime: Path | None = None


@dataclass(frozen=True)
class Boot:
    """One boot: options of `hypertare-agent emulate`, the most seconds of the host, the plan."""

    options: tuple[str, ...]
    limit_s: float
    steps: bytes
    files: BootFiles
    fingerprint: str | None = None


@dataclass(frozen=True)
class Booted:
    """The records as they came out. `failure` says why the machine did not end by itself."""

    raw: bytes
    console: tuple[str, ...]
    failure: str | None
    seconds: float

    @property
    def is_whole(self) -> bool:
        return self.failure is None and is_complete(self.raw)


class Executor(Protocol):
    """Carries boots out, `jobs` of them at once."""

    @property
    def jobs(self) -> int: ...
    def submit(self, boot: Boot) -> Future[Booted]:
        """Raises through the future:
        MachineError: QEMU cannot be started.
        """
        ...

    def end(self) -> None:
        """Ends every boot that was submitted; others may be submitted afterwards."""
        ...


class Threads:
    """Boots on this host, each waited for by a thread."""

    def __init__(self, jobs: int = 1) -> None:
        self.jobs = jobs
        self._processes = Processes()
        self._pool: ThreadPoolExecutor | None = None

    def submit(self, boot: Boot) -> Future[Booted]:
        if self._pool is None:
            self._pool = ThreadPoolExecutor(max_workers=self.jobs)
        return self._pool.submit(self._processes.boot, boot)

    def end(self) -> None:
        pool, self._pool = self._pool, None
        if pool is not None:
            with self._processes.ending():
                pool.shutdown(wait=True, cancel_futures=True)


class Processes:
    """The QEMU processes of this process."""

    def __init__(self) -> None:
        self._running: set[subprocess.Popen[bytes]] = set()
        self._lock = threading.Lock()
        self._closed = False

    @contextlib.contextmanager
    def ending(self) -> Iterator[None]:
        """Kills all; while this lasts, none is started."""
        with self._lock:
            self._closed = True
            running = list(self._running)
        for process in running:
            with contextlib.suppress(OSError):
                process.kill()
        try:
            yield
        finally:
            self._closed = False

    def boot(self, boot: Boot, is_wanted: Callable[[], bool] = lambda: True) -> Booted:
        """Boots a machine and waits for its end. It is killed once it `is_wanted` no more.

        Raises:
            MachineError: QEMU cannot be started.
        """
        began = time.monotonic()
        with (
            _memory("plan") as plan,
            _memory("records") as records,
            _memory("console") as printed,
            _memory("errors") as errors,
        ):
            plan.write(cpio.archive([cpio.file(PLAN_FILE.lstrip("/"), boot.steps)]))
            plan.flush()
            process = self._start(boot, (plan, records, printed), errors)
            self._await(process, boot.limit_s, records, is_wanted)
            failure = None
            if process.returncode != 0 and not _has_last_record(records):
                failure = _why(process.returncode, boot.limit_s, _content(errors))
            raw, console = _content(records), _tail(_content(printed))
        return Booted(raw, console, failure, time.monotonic() - began)

    def _await(
        self,
        process: subprocess.Popen[bytes],
        limit_s: float,
        records: BinaryIO,
        is_wanted: Callable[[], bool],
    ) -> None:
        """Until it ends, or has reported everything: not every kernel then finds its way down, for a
        NIC's driver may wait for ever for its last poll.
        """
        deadline = time.monotonic() + limit_s
        try:
            while (left := deadline - time.monotonic()) > 0 and is_wanted():
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(min(left, _LOOK_S))
                    return
                if _has_last_record(records):
                    process.wait(min(left, _GOING_DOWN_S))
                    return
        except subprocess.TimeoutExpired:
            pass
        finally:
            process.kill()
            process.wait()
            assert process.stdin is not None
            process.stdin.close()
            with self._lock:
                self._running.discard(process)

    def _start(
        self, boot: Boot, files: tuple[BinaryIO, BinaryIO, BinaryIO], errors: BinaryIO
    ) -> subprocess.Popen[bytes]:
        plan, records, printed = files
        of = boot.files
        options = [
            *([f"--hypervisor={of.hypervisor}"] if of.hypervisor else []),
            f"--kernel={of.kernel}",
            *(f"--initramfs={archive}" for archive in of.initramfs),
            f"--initramfs={_path(plan)}",
            f"--records={_path(records)}",
            f"--console={_path(printed)}",
            *([f"--emulator={of.emulator}"] if of.emulator else []),
            *([f"--runtime={of.runtime}"] if of.runtime else []),
        ]
        with self._lock:
            if self._closed:
                raise HypertareError("the run was ended")
            try:
                # Its input is held open and never written to: when we end, it ends.
                # A session of its own: Ctrl-C is heard here alone.
                process = subprocess.Popen(
                    [of.agent, "emulate", *options, *boot.options],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.DEVNULL,
                    stderr=errors,
                    pass_fds=[file.fileno() for file in files],
                    start_new_session=True,
                )
            except OSError as error:
                raise MachineError(f"the agent {of.agent} cannot be started: {error}") from None
            self._running.add(process)
        return process


def _why(status: int, limit_s: float, said: bytes) -> str:
    """Why a machine did not come to its end by itself.

    Raises:
        MachineError: QEMU cannot be started.
    """
    if status < 0:
        return (
            f"the machine was stopped: it took longer than {limit_s:g} s of this host "
            "(emulated.host_limit)"
        )
    lines = [
        line for line in said.decode(errors="replace").splitlines() if line and _NOISE not in line
    ]
    # What QEMU prints when it is killed is a page of registers.
    lines = [line for line in lines if line.startswith(_SPEAKERS)] or lines
    text = " ".join(lines[-3:]) or f"exit status {status}"
    if status == REFUSED:
        raise MachineError(text)
    return f"the machine could not run: {text.removeprefix(AGENT_PREFIX)}"


def is_complete(raw: bytes) -> bool:
    """Whether the last record is there and whole."""
    lines = raw.splitlines()
    return bool(lines) and lines[-1].startswith(b'{"record":"teardown"')


def _has_last_record(records: BinaryIO) -> bool:
    size = os.fstat(records.fileno()).st_size
    tail = os.pread(records.fileno(), _MOST_TEARDOWN, max(0, size - _MOST_TEARDOWN))
    return tail.endswith(b"\n") and is_complete(tail)


def _memory(name: str) -> BinaryIO:
    """A file without a name: whatever happens, it ends with those who have it open."""
    return os.fdopen(os.memfd_create(name), "w+b")


def _path(file: BinaryIO) -> str:
    """By which a child that inherits the file can open it."""
    return f"/proc/self/fd/{file.fileno()}"


def _content(file: BinaryIO) -> bytes:
    file.seek(0)
    return file.read()


_END = "sysrq: Resetting"
"""What the kernel prints at every end, also a good one."""


def _tail(printed: bytes) -> tuple[str, ...]:
    """The last lines that the kernel and init printed, printable characters only."""
    text = printed[-65536:].decode(errors="replace")
    lines = ["".join(c for c in line if c.isprintable())[:400] for line in text.splitlines()]
    kept = (line for line in lines if line.strip() and not line.endswith(_END))
    return tuple(kept)[-MAX_CONSOLE_LINES:]


FIRMWARE = ("bios-256k.bin", "pvh.bin", "linuxboot_dma.bin", "kvmvapic.bin")
"""What runs on a PC before its kernel does; Debian's comes in a package of its own."""
_LIBRARY = re.compile(r"^\s*(\S+) => (/\S+) \(0x[0-9a-f]+\)$")


def firmware(program: Path) -> dict[str, Path | None]:
    """By name where this QEMU finds it, in the order of `FIRMWARE`.

    Raises:
        MachineError: QEMU does not start.
    """
    return {
        name: next((path for f in _folders(program) if (path := Path(f) / name).is_file()), None)
        for name in FIRMWARE
    }


@cache
def _folders(program: Path) -> list[str]:
    return lines_of(program, "-L", "help")


def libraries(program: Path) -> dict[str, Path]:
    """By name where this host finds those that a program is linked with, and its loader.

    Raises:
        MachineError: the loader does not say.
    """
    # The agent starts QEMU by it (`emulate --runtime`).
    found = {ARCH.loader_name: Path(ARCH.loader)}
    # None of those for processors like this host's: another host may have an older one.
    for line in lines_of(Path(ARCH.loader), "--glibc-hwcaps-mask", "none", "--list", str(program)):
        if match := _LIBRARY.match(line):
            found.setdefault(match[1], Path(match[2]))
    return found


def lines_of(program: str | Path, *options: str) -> list[str]:
    """What a program prints.

    Raises:
        MachineError: it failed.
    """
    try:
        said = subprocess.run([program, *options], capture_output=True, timeout=20, check=True)
    except (OSError, subprocess.SubprocessError) as error:
        raise MachineError(f"{program} {' '.join(options)} failed: {error}") from None
    return said.stdout.decode(errors="replace").splitlines()
