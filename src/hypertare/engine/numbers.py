"""The numbers of a run's trials, blocks and boots.

What a trial is stands in its `kind` alone. Numbers only have to be free: in virtual time the cells'
trials are counted from 0 again when a run goes on, so whatever is asked for beside them begins far
above, from where no run's cells can come.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from hypertare.design.trials import Kind, PlannedTrial
from hypertare.machines.batch import TrialSlot

BESIDE_CELLS: dict[Kind, int] = {"search": 1_000_000, "capacity": 2_000_000}
"""The least numbers of trials that are not of the design's cells."""


@dataclass
class Numbers:
    """The next numbers of a trial, a block and a boot.

    All count from 0, or from the end of an earlier part of the run.
    """

    trial: int = 0
    block: int = 0
    boot: int = 0

    @classmethod
    def after(cls, trials: Iterable[PlannedTrial]) -> Numbers:
        """Returns the numbers that follow those of these trials."""
        known = [(one.id, one.block, one.boot) for one in trials]
        if not known:
            return cls()
        trial, block, boot = (max(numbers) + 1 for numbers in zip(*known, strict=True))
        return cls(trial, block, boot)

    def placed(self, place: TrialSlot) -> TrialSlot:
        return replace(place, planned=self.numbered(place.planned))

    def numbered(self, planned: PlannedTrial) -> PlannedTrial:
        self.trial += 1
        return replace(planned, id=self.trial - 1)

    def new_block(self) -> int:
        self.block += 1
        return self.block - 1

    def new_boot(self) -> int:
        self.boot += 1
        return self.boot - 1
