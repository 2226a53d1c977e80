"""A batch: one boot of an emulated machine with all that it is to do, decided before it starts.

Pure. Inside a batch trials are counted from 0, so that its plan, and with it its fingerprint, does
not depend on what else a run does; the run's own numbers are given when its records come out.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from hypertare.base.errors import InputError
from hypertare.base.variables import Level
from hypertare.design import pc, planner
from hypertare.design.design import Variant, WholePlot
from hypertare.design.pc import Nic, Pc
from hypertare.design.trials import PlannedTrial
from hypertare.machine_kinds.machine_kind import CLOCKS
from hypertare.platforms.platform import PcClass
from hypertare.protocol import plan
from hypertare.protocol.constants import MOST_NICS
from hypertare.protocol.phase import REACH
from hypertare.protocol.records import (
    BenchReady,
    Console,
    Record,
    TaskResult,
    TrialBegin,
    TrialEnd,
)
from hypertare.protocol.wire_type import WireType
from hypertare.study import StudyFile
from hypertare.study.sut import OF_GUESTS

if TYPE_CHECKING:
    from hypertare.machines.emulated import Output


@dataclass(frozen=True)
class TrialSlot:
    """The place of a trial in the run: its variant, its numbers and the levels that it puts into the study.

    The maker of the batch chooses `key`, by which it finds the trial again.
    """

    variant: Variant
    planned: PlannedTrial
    levels: Mapping[str, Level | None]
    key: Any = None


@dataclass(frozen=True)
class Batch:
    """One boot of one emulated machine: its hardware, its bench and its trials.

    `trials[i]` is the plan of `places[i]`. A boot of a plot has one batch for each class of PC that its
    platforms need; `part` counts these batches.
    """

    boot: int
    pc: Pc
    bench: plan.Bench
    places: tuple[TrialSlot, ...]
    trials: tuple[plan.Trial, ...]
    part: int = 0

    @cached_property
    def steps(self) -> bytes:
        """The plan as the machine finds it."""
        steps: list[WireType] = [plan.HelloStep(), plan.BenchStep(bench=self.bench)]
        steps += [plan.TrialStep(trial=trial) for trial in self.trials]
        steps.append(plan.TeardownStep())
        return b"".join(step.model_dump_json().encode() + b"\n" for step in steps)

    @property
    def kind(self) -> PcClass:
        return self.places[0].variant.kind.pc

    @property
    def machine(self) -> object:
        """A key that is equal for batches which are the same machine.

        In virtual time these are batches that differ in nothing; by the wall clock every batch is its own.
        """
        if not CLOCKS[self.pc.clock].repeats:
            return id(self)
        return self.pc, hashlib.sha256(self.steps).hexdigest()


def parts(places: Sequence[TrialSlot]) -> list[list[TrialSlot]]:
    """The places of a boot by the class of PC that they need, each in their order; guests' first."""
    found: dict[PcClass, list[TrialSlot]] = {}
    for place in places:
        found.setdefault(place.variant.kind.pc, []).append(place)
    return [
        found[kind] for kind in sorted(found, key=lambda kind: (not kind.has_guests, kind.name))
    ]


def make(
    file: StudyFile,
    plot: WholePlot,
    boot: int,
    seed: int,
    places: Sequence[TrialSlot],
    on: planner.MachineResources,
    part: int = 0,
) -> Batch:
    """One boot of one PC with the trials of these places, in their order; all need the same class.

    All chance follows from `seed`. The variants of other classes are not on the bench.
    """
    kind = places[0].variant.kind.pc
    study = file.cell(plot.levels)
    # The PC has those of its plot, and another's may have more.
    on = replace(on, chance=planner.Chance(seed), cpus=tuple(range(study.sut.cpus)))
    plot = _of_class(plot, kind)
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
    walks = on.processors.get(study.emulated.walks)
    machine = pc.make(kind, study, seed, nics_of(bench, trials), on.programs, walks)
    return Batch(boot, machine, bench, tuple(places), trials, part)


def seed_of(run_seed: int, levels: Mapping[str, object], replicate: int, cut: int = 0) -> int:
    """Returns the seed of one boot; `cut` counts the boots into which a round is cut.

    Levels that only a guest's host knows (`OF_GUESTS`) do not enter the seed. So boots that differ only in
    these meet the same chance, and the baseline has the same boot in all of them. The seed does not depend
    on which other levels a factor has.
    """
    own = sorted((path, str(level)) for path, level in levels.items() if path not in OF_GUESTS)
    text = json.dumps([run_seed, own, replicate, *([cut] if cut else [])])
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4]) & 0x7FFFFFFF


def nics_of(bench: plan.Bench, trials: Sequence[plan.Trial] = ()) -> tuple[Nic, ...]:
    """Returns every NIC of the machine: of uplinks, and of nodes on hubs.

    Nodes that are made within a trial are included. Uplinks may share a wire on which no node is.
    """
    hubs = [link.name for link in bench.links if link.kind == "hub"]
    first = hubs[0] if hubs else ""
    nics: list[tuple[plan.Uplink | plan.Interface, str]] = [
        (one, one.wire or first) for link in bench.links if (one := link.uplink)
    ]
    lives = [life.node for trial in trials for phase in trial.phases for life in phase.lives]
    on_nodes = [one for node in (*bench.nodes, *lives) for one in node.interfaces]
    found = [*nics, *((one, one.link) for one in on_nodes if one.link in hubs)]
    wires = list(dict.fromkeys([*hubs, *(wire for _, wire in found)]))
    # Lives of several trials are on the same ones, one after the other.
    all_of_them = (
        Nic(nic.nic or "virtio-net", nic.mac or "", wires.index(wire)) for nic, wire in found
    )
    return tuple(dict.fromkeys(all_of_them))


def check_nics(file: StudyFile, plot: WholePlot, on: planner.MachineResources) -> None:
    """Whether the PCs of a plot have room for all their NICs.

    Raises:
        InputError: one has not; it says for how many guests it would have.
    """
    study = file.cell(plot.levels)
    for kind in pc.classes(study):
        own = _of_class(plot, kind)
        cells = {v.node: file.cell({**plot.levels, **v.levels}) for v in own.variants}
        needed = len(nics_of(planner.make_bench(study, own, cells, on)))
        if needed > MOST_NICS:
            fit = study.bench_guests * MOST_NICS // needed
            raise InputError(
                f"{study.bench_guests} guests with their peers need {needed} NICs of the emulated "
                f"machine, which has room for {MOST_NICS}: {fit} fit.",
                "Ask for fewer with sut.guests.",
            )


def _of_class(plot: WholePlot, kind: PcClass) -> WholePlot:
    return replace(plot, variants=tuple(v for v in plot.variants if v.kind.pc == kind))


@dataclass(frozen=True)
class Sorted:
    """The records of a machine, by what they are about. `trials` has those that were ended in order."""

    bench: tuple[Record, ...]
    trials: dict[int, tuple[Record, ...]]
    ready: BenchReady | None


def sort(records: Sequence[Record]) -> Sorted:
    """Takes the records of one boot apart."""
    bench: list[Record] = []
    trials: dict[int, tuple[Record, ...]] = {}
    current: list[Record] = bench
    for record in records:
        if isinstance(record, TrialBegin):
            current = []
        current.append(record)
        if isinstance(record, TrialEnd):
            trials[record.trial] = tuple(current)
            current = []
    ready = next((one for one in records if isinstance(one, BenchReady)), None)
    return Sorted(tuple(bench), trials, ready)


@dataclass(frozen=True)
class TrialRecords:
    """The records of a boot about one of its trials, under the run's numbers."""

    place: TrialSlot
    records: tuple[Record, ...]
    error: str | None
    seconds: float


def records_of(batch: Batch, output: Output) -> tuple[tuple[Record, ...], Iterator[TrialRecords]]:
    """The records of a boot's bench, and then of its trials, one by one."""
    parts = sort(output.records)

    def trials() -> Iterator[TrialRecords]:
        for number, place in enumerate(batch.places):
            found = parts.trials.get(number, ())
            records = [
                one.model_copy(update={"trial": place.planned.id})
                if "trial" in type(one).model_fields
                else one
                for one in found
            ]
            error = _error_of(found, output, parts.ready)
            if error and output.console:
                records.append(Console(node="host", lines=output.console))
            seconds = getattr(records[-1], "elapsed_s", 0.0) if records and not error else 0.0
            yield TrialRecords(place, tuple(records), error, seconds)

    return parts.bench, trials()


def is_spoilt(batch: Batch, output: Output) -> bool:
    """Whether trials may have failed for those beside them: the machine did not carry all of them out, for
    one may have used up the time of all, or an earlier one lost the bench.
    """
    parts = sort(output.records)
    if parts.ready is not None and parts.ready.error:
        return False
    found = [parts.trials.get(number) for number in range(len(batch.places))]
    return None in found or any(map(loses_bench, filter(None, found[:-1])))


def loses_bench(records: Sequence[Record]) -> bool:
    """Whether a node is gone after a trial, or an end did not answer before anything was measured."""
    return any(
        (isinstance(one, TrialEnd) and one.lost is not None)
        or (isinstance(one, TaskResult) and one.phase == REACH and one.error is not None)
        for one in records
    )


def _error_of(records: Sequence[Record], output: Output, ready: BenchReady | None) -> str | None:
    if ready is not None and ready.error:
        return f"the bench could not be made: {ready.error}"
    if records:
        return getattr(records[-1], "error", None)
    return output.error or "the machine did not carry this trial out"
