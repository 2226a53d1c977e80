"""Who runs studies of a kind of machine. Each has one file beside this one, of the kind's name."""

from __future__ import annotations

from importlib import import_module

from hypertare.engine.runners.runner import Runner
from hypertare.machine_kinds.machine_kind import MachineKind


def runner_of(kind: MachineKind) -> Runner:
    """Returns the runner of a kind of machine. Its module is loaded now, so a run loads the code of one
    kind.
    """
    runner: Runner = import_module(f"hypertare.engine.runners.{kind.name}").RUNNER
    return runner
