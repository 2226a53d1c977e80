"""A worker's side: functions that the cluster calls by their names, and the processes that they start."""

from __future__ import annotations

import socket
from collections.abc import Mapping, Sequence
from functools import cache, partial
from typing import Any

import zstandard
from distributed import get_worker

from hypertare.base.errors import MachineError
from hypertare.machines.cluster.brought import Brought
from hypertare.machines.cluster.order import PART, Answer, Order, Worker, versions
from hypertare.machines.executor import Boot, BootFiles, Processes

_UNWANTED = ("cancelled", "resumed", "released", "forgotten")
"""States of a task that nobody waits for."""


@cache
def _brought() -> Brought:
    return Brought()


@cache
def _processes() -> Processes:
    return Processes()


def boot(order: Order, wanted: Mapping[str, str | None]) -> Answer:
    """Boots a machine, unless files are missing here or `wanted` versions are not this process's.

    Raises:
        MachineError: QEMU cannot be started here.
    """
    me = get_worker()
    worker = Worker(me.address, str(me.name), socket.gethostname())
    own = versions()
    if own != wanted:
        return Answer(worker, versions=own)
    brought = _brought()
    missing, damaged = brought.look([*order.digests()])
    if missing:
        return Answer(worker, missing=tuple(missing), damaged=tuple(damaged))
    try:
        files = BootFiles(
            brought.path(order.agent),
            brought.path(order.kernel),
            tuple(map(brought.path, order.initramfs)),
            brought.path(order.hypervisor) if order.hypervisor else None,
            brought.path(order.emulator),
            brought.folder(order.runtime),
        )
        made = Boot(order.options, order.limit_s, order.steps, files)
        booted = _processes().boot(made, partial(_is_wanted, me, me.get_current_task()))
    except MachineError as error:
        raise MachineError(f"Worker {worker}: {error.what}", error.do) from None
    return Answer(worker, booted)


def missing(digests: Sequence[str]) -> list[str]:
    """Files that are not here, of these."""
    return _brought().look(digests)[0]


def take(digest: str, packed: bytes, first: bool, last: bool) -> None:
    """The next part of a file, compressed."""
    part = zstandard.ZstdDecompressor().decompress(packed, max_output_size=PART)
    _brought().take(digest, part, first=first, last=last)


def _is_wanted(me: Any, key: object) -> bool:
    """Whether the scheduler still waits for a task of this worker: it does not when the run was ended
    and when whoever asked is gone.
    """
    task = me.state.tasks.get(key)
    return task is not None and task.state not in _UNWANTED
