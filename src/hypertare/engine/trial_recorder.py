"""Trials as a run numbers them, and the one place where a trial that ended is written down.

What a trial is stands in its `kind` alone. Numbers only have to be free: in virtual time the cells'
trials are counted from 0 again when a run goes on, so whatever is asked for beside them begins far
above, from where no run's cells can come.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

from hypertare.design.design import WholePlot
from hypertare.design.trials import FinishedTrial, Kind, PlannedTrial
from hypertare.findings.outcome import outcome, warnings
from hypertare.machines import batch as batches
from hypertare.machines.batch import Batch, TrialRecords, TrialSlot
from hypertare.protocol.records import Record
from hypertare.runs.store import Store
from hypertare.study import StudyFile

if TYPE_CHECKING:
    from hypertare.machines.emulated import Output


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

    def __init__(self, file: StudyFile, journal: Store, observer: Observer) -> None:
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

    def boot(
        self,
        batch: Batch,
        output: Output,
        *,
        bench_known: bool = False,
        stored: Mapping[int, FinishedTrial] = {},
    ) -> Iterator[tuple[TrialSlot, FinishedTrial]]:
        """Writes down the records of a boot of an emulated machine, trial by trial.

        Args:
            batch: what was asked for.
            output: what came out.
            bench_known: the records of its bench are in the journal already.
            stored: trials that are in the journal already, by number.
        """
        bench, trials = batches.records_of(batch, output)
        if bench_known:
            self.pass_on(bench)
        else:
            self.bench(batch.boot, bench)
        for ended in trials:
            self.pass_on(ended.records)
            known = stored.get(ended.place.planned.id)
            yield ended.place, known or self.trial(ended, output.fingerprint)

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
