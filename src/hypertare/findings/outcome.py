"""Makes the outcome of a trial from its records. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence

from hypertare.base.errors import HypertareError
from hypertare.base.variables import known
from hypertare.design.trials import FinishedTrial, PlannedTrial
from hypertare.protocol.phase import Phase
from hypertare.protocol.records import Console, Log, ProbeValues, Record
from hypertare.workloads import responses
from hypertare.workloads.sending import of_trial
from hypertare.workloads.workload import WorkloadSettings

Values = dict[str, float]


def outcome(
    work: WorkloadSettings,
    planned: PlannedTrial,
    nodes: Sequence[str],
    records: Sequence[Record],
    error: str | None,
    seconds: float,
    fingerprint: str | None = None,
    most: float | None = None,
) -> FinishedTrial:
    """A trial without its main response has failed, whatever else it gave.

    Args:
        work: the workload as the study sets it.
        planned: what was asked for.
        nodes: those under test.
        records: all records of the trial, or of the bench that could not be made.
        error: why it failed; none if it ended in good order.
        seconds: how long it took.
        fingerprint: of the batch that it was part of, on an emulated machine.
        most: goodput in b/s that the line carries at most, where there is one.
    """
    values: Values = {}
    guests: tuple[Values, ...] = ()
    if error is None:
        try:
            values, guests = _measured(work, planned, nodes, records, most)
        except (ValueError, ArithmeticError, HypertareError) as impossible:
            # Guests are not trusted: what one makes up costs its trial, and not the run.
            error = f"what its nodes reported cannot be: {impossible}"
        else:
            error = _missing(work, values, records)
    console = [r.lines for r in records if isinstance(r, Console) and r.node in nodes]
    return FinishedTrial(
        planned,
        "ok" if error is None else "failed",
        error,
        seconds,
        values if error is None else {},
        console[-1] if console and error is not None else (),
        fingerprint,
        guests if error is None else (),
    )


def _missing(work: WorkloadSettings, values: Values, records: Sequence[Record]) -> str | None:
    """Why the trial has not its main response; adds those that only its settings ask for."""
    if work.kind.headline not in values:
        return responses.why_not(work.type, records)
    try:
        values |= known(work.measure_asked(Phase.of(records)))
    except ValueError as absent:
        return str(absent)
    return None


def _measured(
    work: WorkloadSettings,
    planned: PlannedTrial,
    nodes: Sequence[str],
    records: Sequence[Record],
    most: float | None,
) -> tuple[Values, tuple[Values, ...]]:
    """Returns the responses of a trial: of all guests together, and of each guest.

    Raises:
        ValueError, ArithmeticError, HypertareError: no machine can have done what the records state.
    """
    values = responses.measure(work.type, planned.platform, nodes, records)
    values |= of_trial(most, values)
    guests = responses.of_guests(work.type, planned.platform, nodes, records)
    for name, value in (item for found in (values, *guests) for item in found.items()):
        if not math.isfinite(value):
            raise ValueError(f"{name} would be {value}")
    return values, guests


def warnings(records: Sequence[Record]) -> list[str]:
    """What a person should know of a trial: its nodes' warnings, and probes that were not available."""
    found: dict[str, None] = {}
    for record in records:
        if isinstance(record, Log) and record.level == "warning":
            found[f"{record.node}: {record.text}" if record.node else record.text] = None
        elif isinstance(record, ProbeValues) and record.unavailable is not None:
            found[
                f"{record.node}: the probe {record.probe} is not available: {record.unavailable}"
            ] = None
    return list(found)
