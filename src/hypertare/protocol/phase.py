"""What agents write: lines made records, and what those of a trial's measured phase say. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from functools import cached_property

from pydantic import TypeAdapter

from hypertare.protocol.plan import Purpose, SchedulerWeight
from hypertare.protocol.records import Interval, KnobOutcome, ProbeValues, Record, TaskResult

PHASE = "measure"
"""The phase that responses come from; others prepare it."""

REACH = "reach"
"""The phase and the role of an echo between both ends, before anything is measured."""

LOAD = "load"
"""The role of a guest's task that is there to disturb the others."""


@dataclass(frozen=True)
class Phase:
    """The records of a trial's measured phase: results and intervals by task, probes by node and probe."""

    results: dict[str, TaskResult]
    probes: dict[tuple[str, str], ProbeValues]
    intervals: dict[str, list[Interval]] = field(default_factory=dict)
    """By task, in the order of time."""
    weights: dict[str, float] = field(default_factory=dict)
    """CPU weights that the trial set, by node; the driver domain's by the node that set it."""

    @classmethod
    def of(cls, records: Iterable[Record]) -> Phase:
        phase = cls({}, {})
        for record in records:
            if isinstance(record, KnobOutcome):
                knob, done = record.knob, record.action == "applied" and not record.error
                if isinstance(knob, SchedulerWeight) and done:
                    phase.weights[knob.guest or record.node] = float(knob.weight)
            elif getattr(record, "phase", None) != PHASE:
                continue
            elif isinstance(record, TaskResult):
                phase.results[record.task] = record
            elif isinstance(record, ProbeValues):
                phase.probes[record.node, record.probe] = record
            elif isinstance(record, Interval):
                phase.intervals.setdefault(record.task, []).append(record)
        return phase

    @property
    def guests(self) -> tuple[int, ...]:
        """The numbers of the guests that worked at once; empty if there was a single system under test."""
        found = {self.guest_of(task) for task in self.results}
        return tuple(sorted(guest for guest in found if guest is not None))

    @property
    def neighbours(self) -> tuple[int, ...]:
        """The numbers of the guests that only disturb."""
        disturb = set(self.tasks(LOAD))
        works = {self.guest_of(task) for task in self.results if task not in disturb}
        return tuple(guest for guest in self.guests if guest not in works)

    def of_guest(self, guest: int, node: str) -> Phase:
        """What concerns one guest and its node, as if it had been the only one."""
        own = [task for task in self.results if self.guest_of(task) == guest]
        return Phase(
            {task: _alone(self.results[task]) for task in own},
            {at: values for at, values in self.probes.items() if at[0] == node},
            {task: self.intervals[task] for task in own if task in self.intervals},
            self.weights,
        )

    def guest_of(self, task: str) -> int | None:
        """Returns the number of the guest for which a task works; None if there is a single one."""
        purpose = self.results[task].purpose
        return None if purpose is None else purpose.pair

    def tasks(self, role: str) -> list[str]:
        """The ids of the tasks of a role."""
        return [
            task
            for task, result in self.results.items()
            if result.purpose is not None and result.purpose.role == role
        ]

    def results_of(self, role: str) -> list[TaskResult]:
        return [self.results[task] for task in self.tasks(role)]

    def partner(self, task: str, role: str) -> str | None:
        """The task of this role that is the other end of a task's stream."""
        purpose = self.results[task].purpose
        if purpose is None:
            return None
        return self._by_purpose.get(purpose.model_copy(update={"role": role}))

    @cached_property
    def _by_purpose(self) -> dict[Purpose, str]:
        """The ids of tasks."""
        found = self.results.items()
        return {result.purpose: task for task, result in found if result.purpose is not None}

    def value(self, task: str | None, value: str) -> float | None:
        result = None if task is None else self.results.get(task)
        return None if result is None else result.values.get(value)

    def total(self, role: str, value: str) -> float | None:
        """Sum of a value over the tasks of a role; none if none has it."""
        return sum_of_known(self.value(task, value) for task in self.tasks(role))

    def task_rate(self, role: str, value: str) -> float | None:
        """A value over the time of its own task, summed over the tasks of a role; none if none has it."""
        found = [
            (self.value(task, value), self.value(task, "elapsed_s")) for task in self.tasks(role)
        ]
        rates = [count / seconds for count, seconds in found if count is not None and seconds]
        return sum(rates) if rates else None

    def probe(self, node: str, probe: str, value: str) -> float | None:
        reading = self.probes.get((node, probe))
        return None if reading is None else reading.values.get(value)

    def values(self, node: str, probe: str) -> dict[str, float] | None:
        """All that a probe counted; none where it was not asked or is not available."""
        reading = self.probes.get((node, probe))
        return None if reading is None or reading.unavailable is not None else reading.values

    def has_counters_of(self, node: str) -> bool:
        """Whether the node is a machine with counters of its own, that of its NIC among them."""
        return (node, "net_dev") in self.probes

    def sum_over_links(
        self, node: str, probe: str, begins: str, values: Collection[str]
    ) -> float | None:
        """Returns the sum of these values over a node's links whose names begin with `begins`, without
        loopback.
        """
        counted = self.values(node, probe)
        if counted is None:
            return None
        return sum(
            number
            for name, number in counted.items()
            if name.startswith(begins)
            and not name.startswith("lo.")
            and name.rpartition(".")[2] in values
        )

    def sum_over_interfaces(self, node: str, probe: str, value: str) -> float | None:
        """Returns the sum of a value over all interfaces of a node that have it; None if none has."""
        reading = self.probes.get((node, probe))
        found = [
            number
            for name, number in (reading.values.items() if reading else ())
            if name.endswith(f".{value}")
        ]
        return sum(found) if found else None

    def rate(self, node: str, probe: str, count: float | None) -> float | None:
        """What a probe counted, by the seconds between its readings."""
        reading = self.probes.get((node, probe))
        if reading is None or count is None or not reading.elapsed_s > 0:
            return None
        return count / reading.elapsed_s


def _alone(result: TaskResult) -> TaskResult:
    """The result of a guest that works with others, as that of one that works alone."""
    if result.purpose is None:
        return result
    purpose = Purpose(role=result.purpose.role, direction=result.purpose.direction)
    return result.model_copy(update={"purpose": purpose})


def sum_of_known(values: Iterable[float | None]) -> float | None:
    """Returns the sum of the known values, a lower bound if some are not known; None without any."""
    known = [value for value in values if value is not None]
    return sum(known) if known else None


_ADAPTER: TypeAdapter[Record] = TypeAdapter(Record)


def parse(line: bytes | str) -> Record:
    """One line to one record.

    Raises:
        pydantic.ValidationError: the line is no record.
    """
    return _ADAPTER.validate_json(line)
