"""The machine of a run, the versions of its programs, and the other programs that are busy meanwhile.

Other programs are looked for between blocks, and at most once in `EVERY_S` seconds: a file of each process
is read, which takes some milliseconds.
"""

from __future__ import annotations

import contextlib
import os
import platform
import re
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from hypertare import __version__
from hypertare.base.errors import MachineError
from hypertare.base.host_files import Host
from hypertare.machines.asked import Asked, first_number
from hypertare.machines.host import xen
from hypertare.runs.machine_state import MachineState
from hypertare.runs.store import OtherProgram

if TYPE_CHECKING:
    from hypertare.design.planner.machine_resources import Bootable, Emulating


OF_THE_HOST = ("qemu", "xen")
"""Programs whose versions are those of the host on which benches stand."""


def machine_state(host: Host | None = None) -> MachineState:
    """This machine, as every summary names it."""
    local = host or Host()
    cpuinfo = local.read("/proc/cpuinfo") or ""
    model = re.search(r"^model name\s*:\s*(.*)$", cpuinfo, re.MULTILINE)
    release = local.read("/etc/os-release") or local.read("/usr/lib/os-release") or ""
    name = re.search(r'^PRETTY_NAME="?([^"\n]*)', release, re.MULTILINE)
    return MachineState(
        kind="local",
        hostname=local.read("/proc/sys/kernel/hostname") or "unknown",
        cpu=model[1].strip() if model else "unknown",
        cpus=len(re.findall(r"^processor\s*:", cpuinfo, re.MULTILINE)),
        memory=local.memory.get("MemTotal", 0),
        kernel=local.read("/proc/sys/kernel/osrelease") or "unknown",
        architecture=platform.machine(),
        distribution=name[1] if name else "unknown",
    )


def versions(
    agent: Path,
    image: Bootable | None = None,
    asked: Asked | None = None,
    emulator: Emulating | None = None,
) -> dict[str, str]:
    """Returns the versions of all programs that may influence the figures, without those that do not exist.

    Args:
        agent: the agent's path; it answers at once and is asked here.
        image: the image that guests boot.
        asked: answers of the other programs, if they were asked before.
        emulator: the emulator of virtual time.
    """
    asked = asked or Asked()
    found = {
        "hypertare": __version__,
        "commit": asked.commit.result(),
        "python": platform.python_version(),
        "agent": first_number(asked.host, (str(agent), "--version")),
        "qemu": asked.qemu.result(),
        "emulator": emulator.content if emulator else None,
        "xen": _xen(asked.host),
        "guest kernel": image.kernel_name if image else None,
        "image": image.digest if image else None,
        "programs": image.programs if image else None,
    }
    return {name: version for name, version in found.items() if version}


def _xen(host: Host) -> str | None:
    """Returns Xen's version if this host is its driver domain, else None."""
    try:
        return xen.find(host).described if xen.is_driver_domain(host) else None
    except MachineError:
        return None


EVERY_S = 1.0
_LEAST_S = 0.2
"""Below, the kernel's ticks of 10 ms are too coarse."""
_MOST_PROCESSES = 4096
_MOST_NAMES = 3
_MOST_BYTES = 4096
"""Bytes that are read of a process's stat file: 52 numbers and a name of at most 64 letters fit."""
_KERNEL_THREAD = 0x200000
"""PF_KTHREAD of the flags in proc_pid_stat(5): whose work theirs is cannot be known."""


class BackgroundLoad:
    """Watches a run's blocks for other programs that are busy beside them.

    `notify` gets at most three programs for each block, and all blocks since the last look at once. Without
    `proc`, on a machine that is another host, nothing is watched.
    """

    def __init__(
        self,
        notify: Callable[[Sequence[OtherProgram]], None],
        proc: Path | None = Path("/proc"),
        own: int | None = None,
        beside: Callable[[], tuple[int, ...]] = tuple,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._notify = notify
        self._proc = proc
        self._own = os.getpid() if own is None else own
        self._beside = beside
        self._clock = clock
        self._tick_s = 1 / os.sysconf("SC_CLK_TCK")
        self._blocks: list[int] = []
        self._at = -EVERY_S
        self._before: dict[tuple[int, int], _Process] = {}

    @contextmanager
    def block(self, number: int) -> Iterator[None]:
        """A context for all trials of a block, during which other programs are watched."""
        if not self._blocks and self._clock() - self._at >= EVERY_S:
            # What went before, a boot for example, was beside no block.
            self._look()
        try:
            yield
        finally:
            self._blocks.append(number)
            if self._clock() - self._at >= EVERY_S:
                self.flush()

    def flush(self) -> None:
        """Reports the blocks since the last look; nothing where that was just now."""
        if not self._blocks:
            return
        before, began = self._before, self._at
        self._look()
        elapsed = self._at - began
        blocks, self._blocks = self._blocks, []
        if elapsed < _LEAST_S:
            return
        ours, used = self._ours(), defaultdict[str, int](int)
        for key, process in self._before.items():
            # Those that have ended are not seen.
            ticks = process.ticks - (before[key].ticks if key in before else 0)
            if ticks > 0 and key[0] not in ours and not process.of_kernel:
                used[process.name] += ticks
        busiest = sorted(used, key=lambda name: used[name], reverse=True)[:_MOST_NAMES]
        if busiest:
            self._notify(
                [
                    OtherProgram(block, name, used[name] * self._tick_s / elapsed)
                    for block in blocks
                    for name in busiest
                ]
            )

    def _ours(self) -> set[int]:
        """This process, what belongs to it elsewhere, and all below these."""
        children: dict[int, list[int]] = defaultdict(list)
        for (pid, _), process in self._before.items():
            children[process.parent].append(pid)
        found = {self._own, *self._beside()}
        new = list(found)
        while new:
            new = [child for pid in new for child in children[pid] if child not in found]
            found.update(new)
        return found

    def _look(self) -> None:
        found, names = {}, list[str]()
        with contextlib.suppress(OSError):
            # A Path for each would take longer than reading.
            names = os.listdir(self._proc) if self._proc is not None else []  # noqa: PTH208
        for name in [one for one in names if one.isdigit()][:_MOST_PROCESSES]:
            with contextlib.suppress(OSError, ValueError, IndexError):
                process, start = _parse(_stat(f"{self._proc}/{name}/stat"))
                found[int(name), start] = process
        self._before, self._at = found, self._clock()


@dataclass(frozen=True)
class _Process:
    name: str
    parent: int
    ticks: int
    of_kernel: bool


def _stat(path: str) -> str:
    """What stands there, past Python's streams, which take twice as long as the kernel."""
    file = os.open(path, os.O_RDONLY)
    try:
        return os.read(file, _MOST_BYTES).decode(errors="replace")
    finally:
        os.close(file)


def _parse(text: str) -> tuple[_Process, int]:
    """A process and its beginning, of proc_pid_stat(5); the name may hold anything."""
    head, _, rest = text.rpartition(")")
    fields = rest.split()
    ticks = int(fields[11]) + int(fields[12])
    of_kernel = bool(int(fields[6]) & _KERNEL_THREAD)
    process = _Process(head.partition("(")[2], int(fields[1]), ticks, of_kernel)
    return process, int(fields[19])
