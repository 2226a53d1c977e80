"""`hypertare` as a process of its own, begun by a fork of one that has loaded the product's modules.

Loading them is most of what a short command takes, and tests start a thousand. What differs for a command
that is begun so: all that one worker of pytest starts have the same seed of hashes, and the limits that
the worker had when it started the first. A test about either, or about loading, starts a new Python.
"""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from contextlib import chdir
from functools import cache
from multiprocessing.context import ForkServerProcess
from pathlib import Path

NEW = (sys.executable,)
"""A Python that has loaded nothing yet."""

_ROOT = Path(__file__).parents[1]
_OF_THE_INTERPRETER = ("PYTHON", "LD_", "LC_", "LANG", "MALLOC_", "GLIBC_")
"""How variables begin that an interpreter, or what loads it, reads once."""

_AT_FIRST = dict(os.environ)
"""The environment before any test changed it."""

_PR_SET_MM = 35
_PR_SET_MM_MAP = 14
_PR_SET_MM_MAP_SIZE = 15
_PLACES = (
    *("start_code", "end_code", "start_data", "end_data", "start_brk", "brk", "start_stack"),
    *("arg_start", "arg_end", "env_start", "env_end", "auxv"),
)


class _MemoryMap(ctypes.Structure):
    """`struct prctl_mm_map` of linux/prctl.h."""

    _fields_ = (
        *((name, ctypes.c_uint64) for name in _PLACES),
        ("auxv_size", ctypes.c_uint32),
        ("exe_fd", ctypes.c_uint32),
    )


class Process:
    """Such a command under way, as `subprocess.Popen` would have it."""

    def __init__(self, process: ForkServerProcess) -> None:
        assert process.pid is not None
        self.pid = process.pid
        self._process = process

    def poll(self) -> int | None:
        return self._process.exitcode

    def wait(self, limit_s: float | None = None) -> int:
        self._process.join(limit_s)
        status = self._process.exitcode
        if status is None:
            assert limit_s is not None
            raise subprocess.TimeoutExpired("hypertare", limit_s)
        return status

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


def start(
    *words: str,
    folder: Path,
    env: Mapping[str, str],
    out: Path,
    err: Path,
    python: tuple[str, ...] = (),
) -> Process | subprocess.Popen[bytes]:
    """Starts it in a session of its own; its outputs are files that exist, its input is empty.

    Args:
        words: its arguments.
        folder: where it is started.
        env: all of its environment.
        out: where its standard output is added.
        err: the same of its standard error.
        python: the Python that has it, with what stands before that; a fork, if nothing.
    """
    if not python and can_fork() and not _changes_the_interpreter(env):
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(["tests.preloaded"])
        asked = (words, str(folder), dict(env), str(out), str(err))
        process = context.Process(target=_become, args=asked, daemon=True)
        # Where `tests` is found; the test may be elsewhere.
        with chdir(_ROOT):
            process.start()
        return Process(process)
    with out.open("ab") as to_out, err.open("ab") as to_err:
        return subprocess.Popen(
            [*(python or NEW), "-m", "hypertare", *words],
            cwd=folder,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=to_out,
            stderr=to_err,
            start_new_session=True,
        )


def run(
    *words: object, folder: Path | None = None, env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Runs it to its end, of two minutes at most.

    Args:
        words: its arguments.
        folder: where it is started; here, if nowhere else.
        env: what its environment has beside this process's.
    """
    done = run_for_bytes(*words, folder=folder, env=env)
    return subprocess.CompletedProcess(
        done.args, done.returncode, done.stdout.decode(), done.stderr.decode()
    )


def run_for_bytes(
    *words: object, folder: Path | None = None, env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[bytes]:
    """The same, where outputs are no text."""
    argv = [str(word) for word in words]
    with tempfile.TemporaryDirectory() as place:
        out, err = Path(place, "out"), Path(place, "err")
        out.touch()
        err.touch()
        process = start(
            *argv, folder=folder or Path.cwd(), env={**os.environ, **(env or {})}, out=out, err=err
        )
        try:
            status = process.wait(120)
        finally:
            process.kill()
        return subprocess.CompletedProcess(argv, status, out.read_bytes(), err.read_bytes())


@cache
def can_fork() -> bool:
    """Whether the kernel lets a process say where its arguments and its environment are
    (CONFIG_CHECKPOINT_RESTORE). Tests find their processes by both.
    """
    size = ctypes.c_uint32()
    return not _libc().prctl(_PR_SET_MM, _PR_SET_MM_MAP_SIZE, ctypes.byref(size), 0, 0)


def _changes_the_interpreter(env: Mapping[str, str]) -> bool:
    names = {name for name in {*env, *_AT_FIRST} if name.startswith(_OF_THE_INTERPRETER)}
    names.discard("PYTHONDONTWRITEBYTECODE")
    return any(env.get(name) != _AT_FIRST.get(name) for name in names)


def _become(words: tuple[str, ...], folder: str, env: dict[str, str], out: str, err: str) -> None:
    """Makes of a process that was just forked the one that was asked for."""
    os.setsid()
    opened = (
        os.open(os.devnull, os.O_RDONLY),
        os.open(out, os.O_WRONLY | os.O_APPEND),
        os.open(err, os.O_WRONLY | os.O_APPEND),
    )
    for number, file in enumerate(opened):
        os.dup2(file, number)
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))
    sys.stdin = os.fdopen(0, closefd=False)
    sys.stdout = os.fdopen(1, "w", closefd=False)
    sys.stderr = os.fdopen(2, "w", buffering=1, errors="backslashreplace", closefd=False)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(env)
    sys.argv = [str(_ROOT / "src/hypertare/__main__.py"), *words]
    arguments = [sys.executable, "-m", "hypertare", *words]
    _say_in_proc(arguments, [f"{name}={value}" for name, value in env.items()])
    from hypertare.cli import main

    main()


@cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


_said: list[object] = []


def _say_in_proc(arguments: list[str], environment: list[str]) -> None:
    """Has /proc show these as this process's arguments and environment (prctl(2), PR_SET_MM_MAP)."""
    libc = _libc()
    libc.sbrk.restype = ctypes.c_void_p
    # Of proc_pid_stat(5), whose third field is the first after the name.
    stat = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    numbers = {"start_code": 26, "end_code": 27, "start_stack": 28}
    numbers |= {"start_data": 45, "end_data": 46, "start_brk": 47}
    places = {name: int(stat[number - 3]) for name, number in numbers.items()}
    for name, texts in (("arg", arguments), ("env", environment)):
        text = b"".join(os.fsencode(text) + b"\0" for text in texts)
        buffer = ctypes.create_string_buffer(text, len(text))
        _said.append(buffer)
        places[f"{name}_start"] = ctypes.addressof(buffer)
        places[f"{name}_end"] = ctypes.addressof(buffer) + len(text)
    moved = _MemoryMap(brk=libc.sbrk(0), exe_fd=0xFFFF_FFFF, **places)
    if libc.prctl(_PR_SET_MM, _PR_SET_MM_MAP, ctypes.byref(moved), ctypes.sizeof(moved), 0):
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_MM_MAP)")
