"""Whether elapsed time is a command's work: it may have had none, have waited, or run for a fixed time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from hypertare.base import figures
from hypertare.base.response import ELAPSED
from hypertare.protocol.records import Record, TaskResult
from hypertare.report.verdict import Sentence, Wording
from hypertare.runs.summary import Estimate, Summary

SHORT_S = 0.005
"""Less is the start of a program and hardly its work."""

_MOST_LETTERS = 200

IDLE = 0.5
"""Of elapsed time: less CPU time than that, and the command mostly waited."""

EMULATED = "tcg"
_EMULATION_COSTS = 1.5
"""Times as long, at the least, that a busy program takes where each instruction is emulated."""


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


def waiting(summary: Summary, baseline: str, wording: Wording) -> Iterator[Sentence]:
    """One for each workload whose command waits for most of its time on the baseline, in its first such
    cell; and one for each that is busy and as quick in an emulated guest: its time is fixed.
    """
    told: set[tuple[str, str]] = set()
    known = {
        (one.platform, tuple(one.cell.items()), one.response): one.estimate
        for one in summary.estimates
    }

    def cpu(one: Estimate) -> float | None:
        used = [known.get((one.platform, tuple(one.cell.items()), name)) for name in _CPU]
        return None if None in used else sum(time for time in used if time is not None)

    for one in summary.estimates:
        if (one.response, one.unit) != (ELAPSED, "s") or one.estimate < SHORT_S:
            continue
        workload, used = str(one.cell.get("workload")), cpu(one)
        is_idle = used is not None and used < IDLE * one.estimate
        if is_idle and summary.disturbances:
            # It may have waited for nothing but a CPU.
            continue
        if one.platform == baseline and is_idle and ("idle", workload) not in told:
            told.add(("idle", workload))
            assert used is not None
            yield Sentence(
                "unknown",
                f"{workload} waits for {100 * (1 - used / one.estimate):.0f} % of its time natively, for a "
                "clock, a terminal, a disk (its files are in memory) or another program: elapsed time is "
                "mostly that",
            )
        emulated = wording.accelerators.get(one.platform) == EMULATED
        as_quick = one.cost is not None and one.cost < _EMULATION_COSTS - 1
        if emulated and as_quick and not is_idle and used and ("fixed", workload) not in told:
            told.add(("fixed", workload))
            yield Sentence(
                "unknown",
                f"{workload} is busy and takes hardly longer in an emulated guest: a program that runs for "
                "a fixed time says by its own figures how much it did. Give it so much work, not so much "
                "time",
            )


_CPU = ("user", "system")
