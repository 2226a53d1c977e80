"""The runtime of a QEMU: firmware of a PC, and shared libraries."""

from __future__ import annotations

import re
import subprocess
from functools import cache
from pathlib import Path

from hypertare.base.arch import ARCH
from hypertare.base.errors import MachineError

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
