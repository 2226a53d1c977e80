#!/usr/bin/python3
"""A process outside, with all that might be touched of one: it notes what comes, and is asked for it.

Each line on standard input is answered by a line of JSON. It ends with its input.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import pty
import resource
import select
import signal
import socket
import struct
import sys
import tempfile
from pathlib import Path
from typing import Any

KNOWN = b"known bytes in memory\n" * 100
LIBC = ctypes.CDLL(None, use_errno=True)
VSOCK_ANY = 0xFFFFFFFF


def main() -> None:
    token, *places = sys.argv[1:]
    signals: list[int] = []
    for number in (signal.SIGUSR1, signal.SIGUSR2, signal.SIGTERM, signal.SIGIO, signal.SIGHUP):
        signal.signal(number, lambda number, _frame: signals.append(number))
    memory = ctypes.create_string_buffer(KNOWN)
    secret = tempfile.TemporaryFile()  # noqa: SIM115
    secret.write(KNOWN)
    secret.flush()
    listeners, named = listen(token, places)
    master, slave = pty.openpty()
    os.set_blocking(master, False)
    shared, of_shared = share(token)
    say({"pid": os.getpid(), "address": ctypes.addressof(memory), "secret": secret.fileno(),
         "terminal": os.ttyname(slave), **named, **of_shared})  # fmt: skip
    while sys.stdin.readline():
        say(
            {
                "signals": signals,
                "memory": memory.raw == KNOWN + b"\0",
                "secret": os.pread(secret.fileno(), 4096, 0) == KNOWN,
                "terminal": taken(master),
                "came": arrived(listeners),
                **shared_state(shared),
                **own_state(),
            }
        )
    unshare_all(shared)


def say(what: dict[str, Any]) -> None:
    print(json.dumps(what), flush=True)


def own_state() -> dict[str, Any]:
    status = Path("/proc/self/status").read_text()
    return {
        "nice": os.nice(0),
        "affinity": sorted(os.sched_getaffinity(0)),
        "scheduler": os.sched_getscheduler(0),
        "limits": [resource.getrlimit(number) for number in range(16)],
        "oom": Path("/proc/self/oom_score_adj").read_text(),
        "name": Path("/proc/self/comm").read_text(),
        "cwd": os.readlink("/proc/self/cwd"),  # noqa: PTH115
        "traced": [line for line in status.splitlines() if line.startswith(("Tracer", "Umask"))],
    }


# --- what can be connected to


def listen(token: str, places: list[str]) -> tuple[dict[str, Any], dict[str, Any]]:
    listeners: dict[str, Any] = {}
    paths = [f"{place}/listener" for place in places]
    pipes = [f"{place}/reader" for place in places]
    for name, address in (("abstract", "\0" + token), *((path, path) for path in paths)):
        listeners[name] = at(socket.AF_UNIX, socket.SOCK_STREAM, address)
    for path in pipes:
        os.mkfifo(path)
        listeners[path] = os.open(path, os.O_RDWR | os.O_NONBLOCK)
    listeners["tcp"] = at(socket.AF_INET, socket.SOCK_STREAM, ("0.0.0.0", 0))
    listeners["udp"] = at(socket.AF_INET, socket.SOCK_DGRAM, ("0.0.0.0", 0))
    vsock = None
    # Without the loopback a connection to oneself is sent to whoever runs this machine.
    with contextlib.suppress(OSError):
        Path("/sys/module/vsock_loopback").stat()
        listeners["vsock"] = at(socket.AF_VSOCK, socket.SOCK_STREAM, (VSOCK_ANY, VSOCK_ANY))
        vsock = listeners["vsock"].getsockname()[1]
    ports = {name: listeners[name].getsockname()[1] for name in ("tcp", "udp")}
    return listeners, {"abstract": token, "sockets": paths, "pipes": pipes, **ports, "vsock": vsock}


def at(family: int, kind: int, address: Any) -> socket.socket:
    ours = socket.socket(family, kind)
    ours.bind(address)
    if kind == socket.SOCK_STREAM:
        ours.listen()
    return ours


def arrived(listeners: dict[str, Any]) -> list[str]:
    """Where somebody knocked. Each stays as it is, so that the answer does not change."""
    ready = select.select(list(listeners.values()), [], [], 0)[0]
    return [name for name, listener in listeners.items() if listener in ready]


def taken(master: int) -> str:
    with contextlib.suppress(BlockingIOError):
        return os.read(master, 4096).decode(errors="replace")
    return ""


# --- System V's and POSIX's shared things


def share(token: str) -> tuple[dict[str, int], dict[str, Any]]:
    key = 0x68000000 | os.getpid()
    shared = {
        "segment": LIBC.shmget(key, 4096, 0o1666),
        "semaphores": LIBC.semget(key, 1, 0o1666),
        "messages": LIBC.msgget(key, 0o1666),
        "queue": LIBC.mq_open(f"/{token}".encode(), os.O_CREAT | os.O_RDWR, 0o666, None),
    }
    return shared, {"ipc": key, "segment": shared["segment"], "queue": token}


def shared_state(shared: dict[str, int]) -> dict[str, Any]:
    waiting = ctypes.create_string_buffer(256)
    LIBC.msgctl(shared["messages"], 2, waiting)
    queue = ctypes.create_string_buffer(64)
    LIBC.mq_getattr(shared["queue"], queue)
    segment = ctypes.create_string_buffer(256)
    return {
        "segment": LIBC.shmctl(shared["segment"], 2, segment),
        "semaphore": LIBC.semctl(shared["semaphores"], 0, 12, 0),
        "messages": struct.unpack_from("Q", waiting, 48 + 24 + 8)[0],
        "queue": struct.unpack_from("q", queue, 24)[0],
    }


def unshare_all(shared: dict[str, int]) -> None:
    LIBC.shmctl(shared["segment"], 0, None)
    LIBC.semctl(shared["semaphores"], 0, 0, 0)
    LIBC.msgctl(shared["messages"], 0, None)
    LIBC.mq_unlink(f"/{sys.argv[1]}".encode())


if __name__ == "__main__":
    main()
