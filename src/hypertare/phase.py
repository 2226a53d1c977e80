"""The measured phase of a trial: what its records say. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from hypertare.records import ProbeValues, Record, TaskResult

PHASE = "measure"
"""The phase that responses come from; others prepare it."""


@dataclass(frozen=True)
class Phase:
    """What the records of a trial's measured phase say, by role."""

    results: dict[str, TaskResult]
    probes: dict[tuple[str, str], ProbeValues]

    @classmethod
    def of(cls, records: Iterable[Record]) -> Phase:
        results: dict[str, TaskResult] = {}
        probes: dict[tuple[str, str], ProbeValues] = {}
        for record in records:
            if isinstance(record, TaskResult) and record.phase == PHASE:
                results[record.task] = record
            elif isinstance(record, ProbeValues) and record.phase == PHASE:
                probes[record.node, record.probe] = record
        return cls(results, probes)

    def total(self, prefix: str, value: str) -> float | None:
        """Sum of a value over the tasks of a role (their ids begin with it); none if none has it."""
        found = [
            result.values[value]
            for task, result in self.results.items()
            if task.startswith(prefix) and value in result.values
        ]
        return sum(found) if found else None

    def task_rate(self, prefix: str, value: str) -> float | None:
        """A value over the time of its own task, summed over the tasks of a role; none if none has it."""
        rates = [
            result.values[value] / result.values["elapsed_s"]
            for task, result in self.results.items()
            if task.startswith(prefix) and value in result.values and result.values.get("elapsed_s")
        ]
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

    def sum_over_interfaces(self, node: str, probe: str, value: str) -> float | None:
        """Of all interfaces of a node that have the value: a guest has one NIC."""
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
