"""What the machine gives a run: images, the accelerator that really works, CPUs, environment."""

from __future__ import annotations

from collections.abc import Callable

from hypertare.base import paths
from hypertare.design.planner import MachineResources
from hypertare.engine.prepare import Prepared
from hypertare.engine.runners.registry import runner_of
from hypertare.machines.host.needs import NOTHING, Permissions


def resources(
    prepared: Prepared, notify: Callable[[str], None], allow: Permissions = NOTHING
) -> MachineResources:
    """What the machine gives: guest images, the accelerator that really works, CPUs, environment.

    Args:
        prepared: the study.
        notify: hears what is done.
        allow: what of this host may be changed for the run; nothing is, here.

    Raises:
        MachineError: something that a platform needs is missing.
    """
    paths.agent_binary()
    return runner_of(prepared.study.machine_kind).resources(prepared, notify, allow)
