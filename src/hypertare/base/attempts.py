"""Tries features of this host: namespaces, a TAP device, an overlay, hardware counters.

This file runs as a script in a process of its own and uses the standard library alone: `attempts.py NAME`.
It exits with 0 and prints a line when the attempt works; otherwise it exits with 1 and prints the reason on
standard error.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import struct
import sys
import tempfile
from pathlib import Path

_TUNSETIFF = 0x400454CA
_IFF_TAP, _IFF_NO_PI = 0x0002, 0x1000
_PERF_EVENT_OPEN = {"x86_64": 298, "aarch64": 241}
_PERF_TYPE_HARDWARE, _CPU_CYCLES, _INSTRUCTIONS = 0, 0, 1
# Only user space is counted: more than that needs privileges.
_EXCLUDE_KERNEL, _EXCLUDE_HYPERVISOR = 1 << 5, 1 << 6


def nothing() -> str:
    """Does nothing: the attempt has worked once the caller has started this script inside namespaces."""
    return "namespaces"


def tap() -> str:
    """A TAP device, as a guest's network needs one."""
    with open("/dev/net/tun", "r+b", buffering=0) as tun:  # noqa: PTH123 (unbuffered device)
        request = struct.pack("16sH22x", b"tare%d", _IFF_TAP | _IFF_NO_PI)
        answer = fcntl.ioctl(tun, _TUNSETIFF, request)
    return answer[:16].rstrip(b"\0").decode()


def overlay() -> str:
    """A writable overlay in memory over files of this host.

    Not over the root itself: the kernel refuses that, for mounts below it would come to light."""
    with tempfile.TemporaryDirectory() as place:
        _mount("tmpfs", place, "tmpfs", "size=1m")
        for name in ("upper", "work", "merged"):
            Path(place, name).mkdir()
        options = f"lowerdir=/usr,upperdir={place}/upper,workdir={place}/work"
        try:
            _mount("overlay", f"{place}/merged", "overlay", options)
            Path(place, "merged", "hypertare-attempt").touch()
            _unmount(f"{place}/merged")
        finally:
            _unmount(place)
    return "overlay"


def perf() -> str:
    """Cycles and instructions of this process, counted by the CPU."""
    counters = [_counter(_CPU_CYCLES), _counter(_INSTRUCTIONS)]
    sum(range(100_000))
    counts = [struct.unpack("Q", os.read(counter, 8))[0] for counter in counters]
    if not all(counts):
        raise OSError(0, "the counters stay at 0")
    return f"{counts[0]} cycles, {counts[1]} instructions"


def _counter(event: int) -> int:
    # struct perf_event_attr: type, size, config, then zeros up to the flags at byte 40.
    flags = _EXCLUDE_KERNEL | _EXCLUDE_HYPERVISOR
    attributes = struct.pack("IIQ24xQ64x", _PERF_TYPE_HARDWARE, 112, event, flags)
    buffer = ctypes.create_string_buffer(attributes, 112)
    number = _PERF_EVENT_OPEN[os.uname().machine]
    libc = ctypes.CDLL(None, use_errno=True)
    fd: int = libc.syscall(ctypes.c_long(number), buffer, 0, -1, -1, ctypes.c_ulong(0))
    if fd < 0:
        raise OSError(ctypes.get_errno(), f"perf_event_open: {os.strerror(ctypes.get_errno())}")
    return fd


def _mount(source: str, target: str, kind: str, options: str) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mount(source.encode(), target.encode(), kind.encode(), 0, options.encode()) != 0:
        raise OSError(ctypes.get_errno(), f"mount {kind}: {os.strerror(ctypes.get_errno())}")


def _unmount(target: str) -> None:
    ctypes.CDLL(None).umount2(target.encode(), 2)


ATTEMPTS = {"nothing": nothing, "tap": tap, "overlay": overlay, "perf": perf}

if __name__ == "__main__":
    try:
        print(ATTEMPTS[sys.argv[1]]())
    except OSError as error:
        sys.exit(f"{error.strerror}" + (f" ({error.filename})" if error.filename else ""))
