"""The base class of analyses, and the types of their results. Pure.

Each analysis has one file beside this one. No other module names it: `registry.py` finds the file, a study
asks for it by a table of its name, and the summary and every report show its result.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, TypeVar

from hypertare.base.closed import Settings
from hypertare.base.variables import Cell
from hypertare.workloads.workload import WorkloadSettings

S = TypeVar("S", bound=Settings)


@dataclass(frozen=True)
class Figure:
    """A mean over trials with its interval, in `unit`; no ends where nothing is known of the spread. It is
    geometric where the report's is, so that no two tables differ.
    """

    estimate: float
    low: float | None
    high: float | None
    unit: str


@dataclass(frozen=True)
class Observed:
    """What the counted trials of one platform in one cell measured, by the name of the response."""

    platform: str
    cell: Cell
    figures: Mapping[str, Figure]

    @property
    def workload(self) -> str:
        return str(self.cell["workload"])


@dataclass(frozen=True)
class AnalysedRow:
    """A row for one platform in one cell: `what` names what was measured, `figures` has one figure per
    column.
    """

    platform: str
    cell: Cell
    what: str
    figures: tuple[Figure | None, ...]


@dataclass(frozen=True)
class Analysed:
    """A table: `note` says what its columns mean."""

    title: str
    note: str
    columns: tuple[str, ...]
    rows: tuple[AnalysedRow, ...]


class Analysis(ABC, Generic[S]):
    """An analysis with settings S. `name` is its table in a study."""

    name: ClassVar[str]
    settings: ClassVar[type[Any]]
    asks_for_gaps: ClassVar[bool] = False
    """Whether receivers note the arrival of each message. That costs them time, so only an analysis asks
    for it.
    """

    @abstractmethod
    def problem(self, settings: S, workloads: Mapping[str, WorkloadSettings]) -> str | None:
        """Returns why these workloads lack something that the settings ask for, or None."""

    @abstractmethod
    def analyse(self, settings: S, observed: Sequence[Observed]) -> Analysed:
        """Makes the table of this analysis from what the trials of a run measured."""
