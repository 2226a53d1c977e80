"""The one place where a trial that ended is written down, whoever asked for it and whatever ran it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

from hypertare.design.design import WholePlot
from hypertare.design.trials import FinishedTrial, PlannedTrial
from hypertare.findings.outcome import outcome, warnings
from hypertare.machines.batch import TrialRecords
from hypertare.protocol.records import Record
from hypertare.runs.store import OtherProgram
from hypertare.study import StudyFile


class Journal(Protocol):
    """Where a run writes what happened, after every trial."""

    def append(self, finished: FinishedTrial, records: Sequence[Record]) -> None: ...
    def add_bench(self, boot: int, records: Sequence[Record]) -> None: ...
    def add_event(self, text: str) -> None: ...
    def add_other_programs(self, others: Sequence[OtherProgram]) -> None: ...
    def trials(self) -> list[FinishedTrial]: ...
    def benches(self) -> Iterator[tuple[int, Sequence[Record]]]: ...


class Observer(Protocol):
    """Who watches a run."""

    def notify(self, text: str) -> None: ...
    def bench(self, boot: int, plot: WholePlot) -> None: ...
    def boots(self, done: int, of: int, at_once: int, remaining_s: float) -> None: ...
    def begin(self, planned: PlannedTrial) -> None: ...
    def end(self, finished: FinishedTrial, remaining_s: float) -> None: ...
    def warn(self, text: str) -> None: ...


class TrialRecorder:
    """Makes finished trials of records, and puts everything into the journal at once."""

    def __init__(self, file: StudyFile, journal: Journal, observer: Observer) -> None:
        self.file = file
        self.journal = journal
        self.observer = observer
        self.study = file.cell({})

    def trial(self, ended: TrialRecords, fingerprint: str | None = None) -> FinishedTrial:
        """Writes a trial into the journal and returns it with its outcome."""
        planned = ended.place.planned
        finished = outcome(
            self.study.workloads[planned.workload],
            planned,
            ended.place.variant.nodes,
            ended.records,
            ended.error,
            ended.seconds,
            fingerprint,
            self.file.cell(ended.place.levels).theoretical_goodput(planned.workload),
        )
        self.journal.append(finished, ended.records)
        return finished

    def bench(self, boot: int, records: Sequence[Record]) -> None:
        """Writes down what the making of a bench reported."""
        self.journal.add_bench(boot, records)
        self.pass_on(records)

    def pass_on(self, records: Sequence[Record]) -> None:
        """Reports the warnings in these records to the journal and the observer."""
        for text in warnings(records):
            self.warn(text)

    def warn(self, text: str) -> None:
        self.journal.add_event(text)
        self.observer.warn(text)
