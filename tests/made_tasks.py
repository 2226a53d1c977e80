"""What made tasks are there for."""

from __future__ import annotations

from hypertare.protocol.plan import Direction, Purpose
from hypertare.workloads.registry import KINDS
from hypertare.workloads.workload import WorkloadSettings

_DIRECTIONS: dict[str, Direction] = {"0": "out", "1": "back"}


def purpose_of(task: str) -> Purpose:
    """By the ids that tests write: `send`, `receive.2` of the second guest, `send-1.2` back to it."""
    name, _, pair = task.partition(".")
    role, _, direction = name.partition("-")
    return Purpose(
        role=role, pair=int(pair) if pair else None, direction=_DIRECTIONS.get(direction)
    )


def work_of(kind: str) -> WorkloadSettings:
    """A workload of this type with what it needs, else as a study has it by default."""
    needed = {"command": {"command": "true"}, "touch": {"memory": "1M"}}
    return KINDS[kind].settings.model_validate({"type": kind, **needed.get(kind, {})})
