"""A batch: one boot of an emulated machine with all that it is to do, decided before it starts.

Pure. Inside a batch trials are counted from 0, so that its plan, and with it its fingerprint, does
not depend on what else a run does; the run's own numbers are given when its records come out.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from hypertare import plan
from hypertare.design import Variant
from hypertare.plan import Seam
from hypertare.records import (
    BenchReady,
    Console,
    Record,
    Teardown,
    TrialBegin,
    TrialEnd,
)
from hypertare.trials import PlannedTrial


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
    """A trial's place in the run: its cell in the design, its variant, its numbers."""

    plot: int
    cell: int
    variant: Variant
    planned: PlannedTrial


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


def told_by_console(lines: Sequence[str]) -> Console:
    return Console(node="host", lines=tuple(lines))
