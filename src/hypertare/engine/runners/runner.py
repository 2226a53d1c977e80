"""The base class of runners: the part of the engine that depends on the kind of machine.

Each kind has one file beside this one. `hypertare.machine_kinds` has the part of a kind that a study and
its design need.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from hypertare.base import paths
from hypertare.design.planner import MachineResources
from hypertare.engine.prepare import Prepared
from hypertare.engine.run_options import RunOptions
from hypertare.engine.trial_runner import Asking, TrialRunner
from hypertare.machines import environment
from hypertare.machines.asked import Asked
from hypertare.machines.host.needs import Permissions
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
