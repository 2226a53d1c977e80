"""Runs whole boots of emulated machines. All trials of a boot are chosen before it starts, since nothing
can enter the machine once it runs.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from typing import Protocol

from hypertare.design.trials import FinishedTrial
from hypertare.engine.trial_recorder import TrialRecorder
from hypertare.machines import batch as batches
from hypertare.machines.batch import Batch, TrialSlot
from hypertare.machines.emulated import Output


class BatchMachine(Protocol):
    """A machine that carries out whole boots, `jobs` of them at once."""

    @property
    def jobs(self) -> int: ...
    def run(self, batches: Sequence[Batch]) -> Generator[Output, None, None]: ...


class Boots:
    """Runs batches and writes down their records, in the order in which they were asked for."""

    def __init__(self, machine: BatchMachine, recorder: TrialRecorder) -> None:
        self.machine = machine
        self.recorder = recorder

    @property
    def jobs(self) -> int:
        return self.machine.jobs

    def outputs(self, boots: Sequence[Batch]) -> closing[Generator[Output, None, None]]:
        """Returns the outputs of these boots, for use in a `with`: at its end every machine is stopped."""
        return closing(self.machine.run(boots))

    def take_in(
        self,
        batch: Batch,
        output: Output,
        *,
        bench_known: bool = False,
        stored: Callable[[TrialSlot], FinishedTrial | None] = lambda _: None,
    ) -> Iterator[tuple[TrialSlot, FinishedTrial]]:
        """Writes down the records of a boot, trial by trial.

        Args:
            batch: what was asked for.
            output: what came out.
            bench_known: the records of its bench are in the journal already.
            stored: trials that are in the journal already.
        """
        bench, trials = batches.records_of(batch, output)
        if bench_known:
            self.recorder.pass_on(bench)
        else:
            self.recorder.bench(batch.boot, bench)
        for ended in trials:
            self.recorder.pass_on(ended.records)
            known = stored(ended.place)
            yield ended.place, known or self.recorder.trial(ended, output.fingerprint)
