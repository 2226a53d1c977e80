"""Runners: the part of the engine that depends on the kind of machine.

Each kind has one file beside this one, of the kind's name. `hypertare.machine_kinds` has the part of a
kind that a study and its design need.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager
from importlib import import_module
from typing import TYPE_CHECKING

from hypertare.base import paths
from hypertare.design.planner import MachineResources
from hypertare.engine.prepare import Prepared, RunOptions
from hypertare.engine.trial_runner import Asking, TrialRunner
from hypertare.machine_kinds.machine_kind import MachineKind
from hypertare.machines import environment
from hypertare.machines.asked import Asked
from hypertare.machines.host.settings import NOTHING, Permissions
from hypertare.runs.machine_state import MachineState

if TYPE_CHECKING:
    from hypertare.engine.session import Session


class Runner(ABC):
    """Runs prepared studies of one kind of machine."""

    @abstractmethod
    def resources(
        self, prepared: Prepared, notify: Callable[[str], None], allow: Permissions
    ) -> MachineResources:
        """What the machine gives; `notify` hears what is done.

        Raises:
            MachineError: something that the study needs is missing.
        """

    @abstractmethod
    def state(self, prepared: Prepared, on: MachineResources) -> MachineState:
        """The machine as the run's summary names it."""

    def versions(self, on: MachineResources, asked: Asked | None) -> dict[str, str]:
        """Returns the versions of all programs that may influence the figures.

        `asked` holds answers of programs that were asked before.
        """
        image = next(iter(on.images.values()), None)
        return environment.versions(paths.agent_binary(), image, asked, on.emulator)

    def warnings(self, prepared: Prepared, on: MachineResources) -> list[str]:
        """Returns warnings about the machine that concern every figure of the run."""
        return []

    @abstractmethod
    def run_cells(self, session: Session) -> bool:
        """Carries the design out; whether every cell came to its end."""

    @abstractmethod
    def trial_runner(
        self, asking: Asking, run_options: RunOptions
    ) -> AbstractContextManager[TrialRunner]:
        """Measures what is asked for as answers come."""


def runner_of(kind: MachineKind) -> Runner:
    """Returns the runner of a kind of machine. Its module is loaded now, so a run loads the code of one
    kind.
    """
    runner: Runner = import_module(f"hypertare.engine.runners.{kind.name}").RUNNER
    return runner


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
