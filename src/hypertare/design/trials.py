"""A trial as the controller sees it: what was asked, how it ended, what was measured. No I/O."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from hypertare.base.variables import Cell, Level

Kind = Literal["warmup", "measured", "search", "capacity"]
"""`warmup` counts for nothing; `search` was asked for by a search, `capacity` to know what a share of
it is. None of the three is in an estimate.
"""


@dataclass(frozen=True)
class PlannedTrial:
    """One execution of one cell on one platform, with its place in the design.

    `cell` holds every factor's level that applies, `workload` among them. `boot` numbers the bench
    that it runs on, `block` the set of trials taken close together; both count from 0 over the run.
    """

    id: int
    block: int
    boot: int
    platform: str
    cell: Cell
    kind: Kind = "measured"

    @property
    def workload(self) -> str:
        return str(self.cell["workload"])

    @property
    def of_cell(self) -> bool:
        """Whether it is of a cell of the design, and not of what was asked for beside it."""
        return self.kind in ("warmup", "measured")


def host_of(boot: int, hosts: int) -> int:
    """Which of so many hosts a boot is on: it follows from the boot's number, so that a run that goes on
    and a report know it.
    """
    return boot % hosts


@dataclass(frozen=True)
class FinishedTrial:
    """A planned trial with its outcome. `values` holds responses by name, empty when it failed.

    `fingerprint` names everything that decided a trial in virtual time. `guests` holds, where several
    guests worked at once, the responses of each, the first one's first; what `values` has is of all
    of them.
    """

    planned: PlannedTrial
    status: Literal["ok", "failed"]
    error: str | None
    elapsed_s: float
    values: dict[str, float] = field(default_factory=dict)
    console: tuple[str, ...] = ()
    fingerprint: str | None = None
    guests: tuple[dict[str, float], ...] = ()

    @property
    def counts(self) -> bool:
        """Whether it may enter an estimate."""
        return self.status == "ok" and self.planned.kind == "measured"


@dataclass(frozen=True)
class Ask:
    """A setting to be measured: `levels` is put into the study, `cell` names it in the journal.

    On a machine that draws chance from a seed, the seed follows from `replicate`, or from the block if
    `replicate` is None. One with a `replicate` shares its boot with no other.
    """

    levels: Mapping[str, Level | None]
    cell: Cell
    replicate: int | None = None
