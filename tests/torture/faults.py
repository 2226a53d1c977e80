"""What is done to a run. Each fault says at which moments it strikes, whom, and what may come of it."""

from __future__ import annotations

import os
import random
import re
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from hypertare.machines.host import keeper
from tests.integration.lab import Started
from tests.torture.room import Room

LONG_S = 60.0
"""Longer than anything waits for an answer."""

VICTIMS = {
    "outer agent": r"-agent host$",
    "inner agent": r"-agent host-inside",
    "node's agent": r"-agent node ",
    "task": r"-agent task ",
    "QEMU": r"^qemu-system\S* .*-append ",
    "keeper": rf"-m {re.escape(keeper.__name__)}",
}
AGENTS = ("outer agent", "inner agent")


class TooLateError(Exception):
    """The run ended before it could be struck."""


@dataclass
class Scene:
    """A run under way, and what is known of it."""

    room: Room
    started: Started
    run: Path
    chance: random.Random
    note: Callable[[], None]
    """To be called just before it strikes: what is there then must be there later."""
    undone: list[Callable[[], None]] = field(default_factory=list)
    """To be done before anything is judged: what the user would have to put right."""

    @property
    def going(self) -> bool:
        return self.started.process.poll() is None

    def victims(self, *names: str) -> list[int]:
        """One process of each name, any where there are several. Waits until there are."""
        while self.going:
            found = [self._called(name) for name in names]
            if all(found):
                self.note()
                return [self.chance.choice(sorted(pids)) for pids in found]
            time.sleep(0.01)
        raise TooLateError

    def _called(self, name: str) -> list[int]:
        if name == "controller":
            # A child that is about to be another program has its command line for a moment.
            return [self.started.process.pid]
        lines = self.room.processes()
        return [pid for pid, line in lines.items() if re.search(VICTIMS[name], line)]

    def await_end(self, limit_s: float) -> None:
        with suppress(subprocess.TimeoutExpired):
            self.started.process.wait(limit_s)


Strike = Callable[[Scene], None]

CREATION = ("any", "creation", "bench", "boot", "trial", "teardown", "report")
WORK = ("bench", "boot", "trial", "trial", "trial", "teardown")
TRIAL = ("trial",)


@dataclass(frozen=True)
class Fault:
    """`statuses` of the run that was struck; none means any. `until_next` are the traces that only
    the next run can remove, since everybody who could was killed at once."""

    strike: Strike
    moments: tuple[str, ...] = WORK
    statuses: frozenset[int] = frozenset({0})
    needs: str | None = None
    until_next: tuple[str, ...] = ()
    prepare: Callable[[Scene], None] | None = None


# --- signals


def send(number: int, *names: str) -> Strike:
    def strike(scene: Scene) -> None:
        for pid in scene.victims(*names):
            _signal(pid, number)

    return strike


def everything(scene: Scene) -> None:
    """In any order, and again until nobody is left who could start another."""
    scene.victims("controller")
    while pids := list(scene.room.processes()):
        scene.chance.shuffle(pids)
        for pid in pids:
            _signal(pid, signal.SIGKILL)
        time.sleep(0.01)


def twice(number: int) -> Strike:
    def strike(scene: Scene) -> None:
        (pid,) = scene.victims("controller")
        _signal(pid, number)
        time.sleep(scene.chance.uniform(0, 0.5))
        _signal(pid, number)

    return strike


def stop_for_a_while(name: str) -> Strike:
    def strike(scene: Scene) -> None:
        with _stopped(scene, name):
            scene.await_end(scene.chance.uniform(0.1, 3))

    return strike


def stop_for_good(name: str) -> Strike:
    """Until the run has ended without it, or clearly waits for it."""

    def strike(scene: Scene) -> None:
        with _stopped(scene, name):
            scene.await_end(LONG_S)

    return strike


def stop_then_kill(name: str, *victims: str) -> Strike:
    """Who is stopped cannot tidy; the others must, or it when it goes on."""

    def strike(scene: Scene) -> None:
        killed = scene.victims(*victims)
        with _stopped(scene, name):
            time.sleep(scene.chance.uniform(0, 0.5))
            for pid in killed:
                _signal(pid, signal.SIGKILL)
            time.sleep(scene.chance.uniform(0, 4))

    return strike


@contextmanager
def _stopped(scene: Scene, name: str) -> Iterator[None]:
    (pid,) = scene.victims(name)
    _signal(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        _signal(pid, signal.SIGCONT)


def _signal(pid: int, number: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, number)


# --- room that runs out


def fill(place: Callable[[Room], Path]) -> Strike:
    def strike(scene: Scene) -> None:
        filler = place(scene.room) / "filler"
        _fill(filler)
        scene.undone.append(filler.unlink)
        scene.await_end(LONG_S)

    return strike


def _fill(path: Path) -> None:
    """To the last byte."""
    with suppress(OSError), path.open("wb", buffering=0) as file:
        for size in (1 << 20, 1 << 12, 1):
            with suppress(OSError):
                while True:
                    file.write(bytes(size))


def no_memory(scene: Scene) -> None:
    """The run gets a little more than it has at that moment; the kernel kills whom it likes."""
    room = scene.room
    for _ in range(100):
        with suppress(OSError):
            room.limit_memory(room.memory() + scene.chance.randint(0, 8 << 20))
            break
    scene.undone.append(lambda: room.limit_memory(None))
    scene.await_end(LONG_S)


def no_address_space(scene: Scene) -> None:
    """The controller gets no more memory than it has, and a little."""
    (pid,) = scene.victims("controller")
    status = Path(f"/proc/{pid}/statm").read_text()
    size = int(status.split()[0]) * os.sysconf("SC_PAGE_SIZE") + scene.chance.randint(0, 16 << 20)
    subprocess.run(["prlimit", f"--pid={pid}", f"--as={size}"], check=False, capture_output=True)
    scene.await_end(LONG_S)


_HOG = """
import sys, time
open("/proc/self/oom_score_adj", "w").write("999")
kept = []
for _ in range(int(sys.argv[1]) >> 20):
    kept.append(bytearray(b"x") * (1 << 20))
"""


def oom_kills_qemu(scene: Scene) -> None:
    """Memory runs out beside it, and the kernel takes the one that is marked for it; if that is not gone
    yet when it looks for another, the one that takes the memory.
    """
    (pid,) = scene.victims("QEMU")
    room = scene.room
    with suppress(OSError):
        Path(f"/proc/{pid}/oom_score_adj").write_text("1000")
    room.limit_memory(room.memory() + (32 << 20))
    hog = subprocess.Popen(
        [*room.wrap, sys.executable, "-c", _HOG, str(256 << 20)], stderr=subprocess.DEVNULL
    )
    while Path(f"/proc/{pid}").exists() and hog.poll() is None:
        time.sleep(0.01)
    hog.kill()
    hog.wait()
    room.limit_memory(None)


# --- from inside, and the calendar


def die_inside(scene: Scene) -> None:
    """The guest's next command makes its kernel panic."""
    (pid,) = scene.victims("QEMU")
    _sign(scene.room).write_text("die")
    while scene.going and Path(f"/proc/{pid}").exists():
        time.sleep(0.01)
    _sign(scene.room).unlink()
    if not scene.going:
        raise TooLateError


def _sign(room: Room) -> Path:
    return room.lab.home / "signs" / "die"


def make_sign(scene: Scene) -> None:
    _sign(scene.room).parent.mkdir(exist_ok=True)


def clock_file(room: Room) -> Path:
    return room.lab.home / "clock"


def clock_jumps(scene: Scene) -> None:
    for _ in range(scene.chance.randint(1, 3)):
        days = scene.chance.choice((-400, -1, -0.04, 0.04, 1, 400))
        with clock_file(scene.room).open("r+b") as file:
            file.write(struct.pack("q", int(days * 86400)))
        scene.await_end(scene.chance.uniform(0.1, 1))


# --- all of them

_KILLED = frozenset({-signal.SIGKILL})
_GOES_ON = frozenset({0})
_ENDS = frozenset({1})
_INTERRUPTED = frozenset({130})
_EITHER = frozenset({0, 1})
_ANY: frozenset[int] = frozenset()
_CGROUPS = ("cgroup",)


FAULTS: dict[str, Fault] = {
    "kill controller": Fault(send(signal.SIGKILL, "controller"), CREATION, _KILLED),
    "kill outer agent": Fault(send(signal.SIGKILL, "outer agent"), WORK, _ENDS),
    "kill inner agent": Fault(send(signal.SIGKILL, "inner agent"), WORK, _ENDS),
    "kill both agents": Fault(send(signal.SIGKILL, *AGENTS), WORK, _ENDS, until_next=_CGROUPS),
    "kill controller and outer agent": Fault(
        send(signal.SIGKILL, "controller", "outer agent"), WORK, _KILLED
    ),
    "kill controller and inner agent": Fault(
        send(signal.SIGKILL, "inner agent", "controller"), WORK, _KILLED
    ),
    "kill everything": Fault(everything, CREATION, _KILLED, until_next=_CGROUPS),
    "kill node's agent": Fault(send(signal.SIGKILL, "node's agent"), TRIAL),
    "kill task": Fault(send(signal.SIGKILL, "task"), TRIAL),
    "kill QEMU": Fault(send(signal.SIGKILL, "QEMU"), ("boot", "trial"), needs="guest"),
    "guest dies from inside": Fault(die_inside, ("boot",), needs="guest", prepare=make_sign),
    "SIGINT": Fault(send(signal.SIGINT, "controller"), WORK, _INTERRUPTED),
    "SIGTERM": Fault(send(signal.SIGTERM, "controller"), WORK, _INTERRUPTED),
    "SIGINT twice": Fault(twice(signal.SIGINT), WORK, _INTERRUPTED),
    "SIGHUP": Fault(send(signal.SIGHUP, "controller"), CREATION, frozenset({-signal.SIGHUP})),
    "SIGTERM to outer agent": Fault(send(signal.SIGTERM, "outer agent"), WORK, _ENDS),
    **{
        f"stop {name} for a while": Fault(stop_for_a_while(name), moments)
        for name, moments in (
            ("controller", CREATION),
            ("outer agent", WORK),
            ("inner agent", WORK),
            ("node's agent", TRIAL),
            ("task", TRIAL),
        )
    },
    "stop QEMU for a while": Fault(stop_for_a_while("QEMU"), ("boot", "trial"), needs="guest"),
    **{
        f"stop {name} for good": Fault(stop_for_good(name), TRIAL, _EITHER)
        for name in ("inner agent", "node's agent", "task")
    },
    "stop QEMU for good": Fault(stop_for_good("QEMU"), TRIAL, _EITHER, needs="guest"),
    "stop controller, kill it": Fault(
        stop_then_kill("controller", "controller"), CREATION, _KILLED
    ),
    "stop outer agent, kill controller": Fault(
        stop_then_kill("outer agent", "controller"), WORK, _KILLED
    ),
    "stop inner agent, kill controller": Fault(
        stop_then_kill("inner agent", "controller"), WORK, _KILLED
    ),
    "stop inner agent, kill outer": Fault(
        stop_then_kill("inner agent", "outer agent"), WORK, _ENDS
    ),
    "full disk": Fault(
        fill(lambda room: room.disk), ("any", "creation", "bench", "trial", "report"), _ANY
    ),
    "full /run": Fault(
        fill(lambda room: room.at("/run")), ("any", "bench", "trial"), _ANY, needs="settings"
    ),
    "no memory": Fault(no_memory, ("any", "bench", "boot", "trial", "report"), _ANY),
    "no address space": Fault(no_address_space, ("any", "bench", "trial", "report"), _ANY),
    "OOM killer takes QEMU": Fault(oom_kills_qemu, TRIAL, needs="guest"),
    "clock jumps": Fault(clock_jumps, CREATION),
    "kill keeper": Fault(
        send(signal.SIGKILL, "keeper"), TRIAL, _ANY, "settings", ("file /run/hypertare", "setting")
    ),
    "kill controller, settings changed": Fault(
        send(signal.SIGKILL, "controller"), ("boot", "trial", "teardown"), _KILLED, "settings"
    ),
    "kill keeper and controller": Fault(
        send(signal.SIGKILL, "keeper", "controller"),
        ("boot", "trial"),
        _KILLED,
        "settings",
        ("file /run/hypertare", "setting"),
    ),
}
