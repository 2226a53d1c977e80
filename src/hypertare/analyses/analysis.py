"""What an analysis is: its table of a study, and what it makes of a run's trials.

Each has one file beside this one, and nothing else names it: `registry.py` finds the files, the study has a
table by its name, the summary and every report have what it found. Pure.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, TypeVar

from hypertare.base.level import Cell
from hypertare.base.settings import Settings
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
    """Of a platform in a cell: `what` the figures are of, and one under each column."""

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
    """Receivers note when each message came, which costs them time: only of studies that ask."""

    @abstractmethod
    def problem(self, settings: S, workloads: Mapping[str, WorkloadSettings]) -> str | None:
        """What it asks for and these workloads have not."""

    @abstractmethod
    def analyse(self, settings: S, observed: Sequence[Observed]) -> Analysed:
        """What it finds in a run."""
