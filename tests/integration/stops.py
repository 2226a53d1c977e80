"""A host that takes the CPU away: busy programs, and QEMU stopped and continued every few milliseconds."""

from __future__ import annotations

import multiprocessing
import os
import random
import re
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from tests.integration.lab import Lab

MACHINE = r"^(\./)?qemu-system.* -append "

KICKED = {"QEMU_ICOUNT_KICKS": "200"}
"""Environment in which the emulator interrupts itself every 100 us or so, at random: what a host does to a
machine once, when it starts, happens to it all the time (`emulator/10-tcg-kicks.patch`).
"""
KICKED_OFTEN = {"QEMU_ICOUNT_KICKS": "50"}
"""Every 25 us or so. What interrupts takes a CPU then, so that a boot takes up to twice the CPU time."""


def _burst() -> None:
    """Uses a CPU now and then: a program that has slept gets it at once, and so interrupts others more
    often than one that never sleeps.
    """
    chance = random.Random(os.getpid())
    while True:
        until = time.monotonic() + chance.uniform(0.002, 0.010)
        while time.monotonic() < until:
            pass
        time.sleep(chance.uniform(0.005, 0.030))


@contextmanager
def busy(count: int = 2) -> Iterator[None]:
    """Beside so many programs that do nothing but use CPUs, a quarter of the time."""
    programs = [multiprocessing.Process(target=_burst, daemon=True) for _ in range(count)]
    for one in programs:
        one.start()
    try:
        yield
    finally:
        for one in programs:
            one.kill()
            one.join()


@contextmanager
def stopping(lab: Lab) -> Iterator[list[int]]:
    """Stops the lab's machines for 1 to 10 ms every 5 to 30 ms; yields how often that was done."""
    ended, often = threading.Event(), [0]
    thread = threading.Thread(target=_stop_again_and_again, args=(lab, ended, often))
    thread.start()
    try:
        yield often
    finally:
        ended.set()
        thread.join()


def _stop_again_and_again(lab: Lab, ended: threading.Event, often: list[int]) -> None:
    chance = random.Random(1)
    machines: list[int] = []
    looked = 0.0
    while not ended.is_set():
        if time.monotonic() > looked + 0.5:
            machines = [p for p, line in lab.processes().items() if re.search(MACHINE, line)]
            looked = time.monotonic()
        for pid in machines:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGSTOP)
                time.sleep(chance.uniform(0.001, 0.010))
                os.kill(pid, signal.SIGCONT)
                often[0] += 1
        time.sleep(chance.uniform(0.005, 0.030))
