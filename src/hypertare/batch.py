"""A batch: one boot of an emulated machine with all that it is to do, decided before it starts.

Pure. Inside a batch trials are counted from 0, so that its plan, and with it its fingerprint, does
not depend on what else a run does; the run's own numbers are given when its records come out.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from hypertare import plan, planner
from hypertare.design import Plot, Variant
from hypertare.plan import Seam
from hypertare.records import (
    BenchReady,
    Console,
    Record,
    Teardown,
    TrialBegin,
    TrialEnd,
)
from hypertare.study import Study, StudyFile
from hypertare.trials import Cell, PlannedTrial

if TYPE_CHECKING:
    from hypertare.machine.emulated import Output


@dataclass(frozen=True)
class Pc:
    """The hardware of an emulated machine, and how its clock runs."""

    clock: str
    shift: int
    seed: int
    memory: int
    cpus: int
    kernel: str
    limit_s: int
    host_limit_s: float
    nics: tuple[tuple[str, str], ...] = ()
    cpu_model: str | None = None
    kernel_args: tuple[str, ...] = ()

    @property
    def options(self) -> list[str]:
        """For `hypertare-agent emulate`, which makes QEMU's command line of them."""
        options = [
            f"--clock={self.clock}",
            f"--shift={self.shift}",
            f"--seed={self.seed}",
            f"--memory={self.memory}",
            f"--cpus={self.cpus}",
            f"--limit={self.limit_s}",
        ]
        options += [f"--nic={model}={mac}" for model, mac in self.nics]
        options += [f"--cpu-model={self.cpu_model}"] if self.cpu_model else []
        return options + [f"--kernel-arg={argument}" for argument in self.kernel_args]


@dataclass(frozen=True)
class Place:
    """A trial's place in the run: its variant, its numbers, what is put into the study for it.

    `key` is whatever the maker of the batch knows it by.
    """

    variant: Variant
    planned: PlannedTrial
    levels: Cell
    key: Any = None


@dataclass(frozen=True)
class Batch:
    """`places` and `trials` belong together one by one."""

    boot: int
    pc: Pc
    bench: plan.Bench
    places: tuple[Place, ...]
    trials: tuple[plan.Trial, ...]

    @property
    def steps(self) -> bytes:
        """The plan as the machine finds it."""
        steps: list[Seam] = [plan.HelloStep(), plan.BenchStep(bench=self.bench)]
        steps += [plan.TrialStep(trial=trial) for trial in self.trials]
        steps.append(plan.TeardownStep())
        return b"".join(step.model_dump_json().encode() + b"\n" for step in steps)


def make(
    file: StudyFile,
    plot: Plot,
    boot: int,
    seed: int,
    places: Sequence[Place],
    on: planner.Surroundings,
) -> Batch:
    """One boot with the trials of these places, in their order; `seed` moves what chance moves."""
    on = replace(on, chance=planner.Chance(seed))
    study = file.cell(plot.levels)
    cells = {
        variant.node: file.cell({**plot.levels, **variant.levels}) for variant in plot.variants
    }
    bench = planner.make_bench(study, plot, cells, on)
    trials = tuple(
        planner.make_trial(
            number,
            file.cell(place.levels),
            place.planned.workload,
            place.variant,
            plot,
            on,
            warmup=place.planned.kind == "warmup",
        )
        for number, place in enumerate(places)
    )
    return Batch(boot, _pc(study, seed, nics_of(bench)), bench, tuple(places), trials)


def _pc(study: Study, seed: int, nics: tuple[tuple[str, str], ...]) -> Pc:
    return Pc(
        clock=study.clock,
        shift=study.emulated.shift,
        seed=seed,
        memory=study.sut.memory,
        cpus=study.sut.cpus,
        kernel=study.sut.kernel,
        limit_s=math.ceil(study.emulated.limit),
        host_limit_s=study.emulated.host_limit,
        nics=nics,
        cpu_model=study.sut.cpu_model,
        kernel_args=study.sut.kernel_args,
    )


def seed_of(run_seed: int, levels: Mapping[str, object], replicate: int) -> int:
    """Of one boot. It does not depend on which other levels a factor has."""
    text = json.dumps([run_seed, sorted((k, str(v)) for k, v in levels.items()), replicate])
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4]) & 0x7FFFFFFF


def nics_of(bench: plan.Bench) -> tuple[tuple[str, str], ...]:
    """Model and address of every NIC that the bench finds on its hubs."""
    hubs = {link.name for link in bench.links if link.kind == "hub"}
    return tuple(
        (interface.nic or "virtio-net", interface.mac or "")
        for node in bench.nodes
        for interface in node.interfaces
        if interface.link in hubs
    )


@dataclass(frozen=True)
class Sorted:
    """What a machine told, by what it is about. `trials` has those that were ended in order."""

    bench: tuple[Record, ...]
    trials: dict[int, tuple[Record, ...]]
    rest: tuple[Record, ...]
    ready: BenchReady | None
    complete: bool


def sort(records: Sequence[Record]) -> Sorted:
    """Takes the records of one boot apart."""
    bench: list[Record] = []
    trials: dict[int, tuple[Record, ...]] = {}
    current: list[Record] = bench
    ready = None
    for record in records:
        if isinstance(record, TrialBegin):
            current = []
        current.append(record)
        if isinstance(record, BenchReady):
            ready = record
        if isinstance(record, TrialEnd):
            trials[record.trial] = tuple(current)
            current = []
    rest = () if current is bench else tuple(current)
    complete = bool(records) and isinstance(records[-1], Teardown)
    return Sorted(tuple(bench), trials, rest, ready, complete)


def renumbered(records: Sequence[Record], trial: int) -> Iterator[Record]:
    """Records of a trial under the number that it has in the run."""
    for record in records:
        named = "trial" in type(record).model_fields
        yield record.model_copy(update={"trial": trial}) if named else record


@dataclass(frozen=True)
class Told:
    """What a boot told of one of its trials, under the run's numbers."""

    place: Place
    records: tuple[Record, ...]
    error: str | None
    seconds: float


def tell(batch: Batch, output: Output) -> tuple[tuple[Record, ...], Iterator[Told]]:
    """The records of a boot's bench, and then of its trials, one by one."""
    told = sort(output.records)

    def trials() -> Iterator[Told]:
        for number, place in enumerate(batch.places):
            found = told.trials.get(number, ())
            records = list(renumbered(found, place.planned.id))
            error = _error_of(found, output, told.ready)
            if error and output.console:
                records.append(told_by_console(output.console))
            seconds = getattr(records[-1], "elapsed_s", 0.0) if records and not error else 0.0
            yield Told(place, tuple(records), error, seconds)

    return told.bench, trials()


def _error_of(records: Sequence[Record], output: Output, ready: BenchReady | None) -> str | None:
    if records:
        return getattr(records[-1], "error", None)
    if ready is not None and ready.error:
        return f"the bench could not be made: {ready.error}"
    return output.error or "the machine did not carry this trial out"


def told_by_console(lines: Sequence[str]) -> Console:
    return Console(node="host", lines=tuple(lines))
