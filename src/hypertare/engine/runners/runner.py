"""What the engine does on a kind of machine and not on others.

Each has one file beside this one. What a study and its design see of a
kind is in `hypertare.machine_kinds`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import ClassVar

from hypertare.base import paths
from hypertare.design.planner import Surroundings
from hypertare.engine.laboratory import Asking, Backend
from hypertare.engine.manner import Manner
from hypertare.engine.notes import Observer
from hypertare.engine.prepare import Prepared
from hypertare.machine_kinds.machine_kind import MachineKind
from hypertare.machines import environment
from hypertare.machines.asked import Asked
from hypertare.machines.host.needs import Permissions
from hypertare.runs.machine_state import MachineState
from hypertare.runs.store import Store


class Runner(ABC):
    """Runs prepared studies of one kind of machine."""

    kind: ClassVar[MachineKind]

    @abstractmethod
    def surroundings(
        self, prepared: Prepared, tell: Callable[[str], None], allow: Permissions
    ) -> Surroundings:
        """What the machine gives; `tell` hears what is done.

        Raises:
            MachineError: something that the study needs is missing.
        """

    @abstractmethod
    def state(self, prepared: Prepared, on: Surroundings) -> MachineState:
        """The machine as the run's summary names it."""

    def versions(self, on: Surroundings, asked: Asked | None) -> dict[str, str]:
        """Of all that has a part in the numbers; `asked` are programs that were asked before."""
        image = next(iter(on.images.values()), None)
        return environment.versions(paths.agent_binary(), image, asked, on.emulator)

    def warnings(self, prepared: Prepared, on: Surroundings) -> list[str]:
        """What of the machine has to be known of all that is measured on it."""
        return []

    @abstractmethod
    def run_cells(
        self, prepared: Prepared, on: Surroundings, manner: Manner, store: Store, observer: Observer
    ) -> bool:
        """Carries the design out; whether every cell came to its end."""

    @abstractmethod
    def backend(self, asking: Asking, manner: Manner) -> AbstractContextManager[Backend]:
        """Measures what is asked for as answers come."""
