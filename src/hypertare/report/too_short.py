"""What a command printed, for who weighs it: a run of no time may have had nothing to do."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from hypertare.base import figures
from hypertare.base.response import ELAPSED
from hypertare.protocol.records import Record, TaskResult
from hypertare.report.verdict import Sentence, Wording
from hypertare.runs.summary import Summary

SHORT_S = 0.005
"""Less is the start of a program and hardly its work."""

_MOST_LETTERS = 200


def last_line(records: Sequence[Record]) -> str:
    """The last line that a run's command printed; nothing if it printed none."""
    for record in records:
        if not isinstance(record, TaskResult):
            continue
        for stream in ("stdout", "stderr"):
            lines = [line for line in record.text.get(stream, "").splitlines() if line.strip()]
            if lines:
                return lines[-1].strip()[:_MOST_LETTERS]
    return ""


def sentences(
    summary: Summary, baseline: str, wording: Wording, printed: Mapping[str, str]
) -> Iterator[Sentence]:
    """One for each workload whose command takes the baseline less than `SHORT_S`, in its first such cell.

    Args:
        printed: the last line of a run on the baseline, by cell.
    """
    told: set[str] = set()
    for one in summary.estimates:
        workload = str(one.cell.get("workload"))
        if workload in told or (one.response, one.platform, one.unit) != (ELAPSED, baseline, "s"):
            continue
        if one.estimate < SHORT_S:
            told.add(workload)
            label = wording.label(one.cell)
            where = workload if label.startswith(workload) else f"{workload} ({label})"
            line = printed.get(label, "")
            prints = f'prints "{line}"' if line else "prints nothing"
            took = figures.quantity(one.estimate, "s", 2)
            yield Sentence(
                "unknown",
                f"{where} takes {took} natively, mostly the start of a program, and {prints}: is there "
                "work to do? --prepare 'make clean' makes some before each run",
            )
