"""Whether elapsed time is a command's work: it may have had none, have waited, or run for a fixed time."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence

from hypertare.base import figures
from hypertare.base.level import key
from hypertare.base.response import ELAPSED
from hypertare.base.words import listing
from hypertare.protocol.records import Record, TaskResult
from hypertare.report.verdict import Sentence, Wording
from hypertare.runs.summary import Estimate, Summary

SHORT_S = 0.005
"""Seconds of elapsed time below which a command hardly does more than start."""

_MOST_LETTERS = 200
_MOST_OF_NAME = 15
"""Letters that the kernel keeps of a process's name."""

LEFT = "left"
"""Beside the texts that a command printed, the names of processes that it left behind."""

IDLE = 0.5
"""Share of elapsed time. A command with less CPU time mostly waited."""

EMULATED = "tcg"
_EMULATION_COSTS = 1.5
"""Times as long, at the least, that a busy program takes where each instruction is emulated."""
_EARLY_S = 0.002
_START_S = 0.05
"""Before and after a whole second, where a program ends that works until its clock says so."""


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


def no_work(
    summary: Summary, baseline: str, wording: Wording, printed: Mapping[str, str]
) -> Iterator[Sentence]:
    """One for each workload whose command takes the baseline less than `SHORT_S`, in its first such cell.

    Args:
        printed: the last line of a run on the baseline, by cell.
    """
    named: set[str] = set()
    for one in summary.estimates:
        workload = str(one.cell.get("workload"))
        if workload in named or (one.response, one.platform, one.unit) != (ELAPSED, baseline, "s"):
            continue
        if one.estimate < SHORT_S:
            named.add(workload)
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


class Besides:
    """Facts about commands' runs on the baseline that no figure shows: processes that they left behind, and
    calls that wait for a disk.
    """

    def __init__(self) -> None:
        self._left: dict[str, set[str]] = {}
        self._syncs: dict[str, float] = {}

    def add(self, workload: str, records: Sequence[Record]) -> None:
        """Takes in the records of a run that ended in good order.

        Warm-ups are taken in too: calls that wait for a disk are counted in them alone.
        """
        for record in records:
            if isinstance(record, TaskResult):
                if names := record.text.get(LEFT):
                    short = (name[:_MOST_OF_NAME] for name in names.split("\n"))
                    self._left.setdefault(workload, set()).update(short)
                if syncs := record.values.get("syncs"):
                    self._syncs[workload] = max(syncs, self._syncs.get(workload, 0.0))

    def sentences(self) -> Iterator[Sentence]:
        for workload, names in self._left.items():
            yield Sentence(
                "unknown",
                f"{workload} ends before what it has started ({listing(sorted(names), 3)}). That is killed "
                "then, and its work is in no figure: `wait` in a shell waits for it",
            )
        for workload, calls in self._syncs.items():
            counted = "1 call" if calls == 1 else f"{calls:,.0f} calls"
            yield Sentence(
                "unknown",
                f"{workload} wants its data on a disk ({counted} of fsync and its like, or of files that "
                "are opened with O_DIRECT or O_SYNC): its files are in memory on every platform, where "
                "that takes hardly any time. With --disk DIR it has a disk, at $HYPERTARE_DISK",
            )


def waiting(
    summary: Summary, baseline: str, wording: Wording, of: Collection[str]
) -> Iterator[Sentence]:
    """One for each of these workloads whose command waits for most of its time on the baseline, in its
    first such cell.
    """
    if summary.disturbances:
        # It may have waited for nothing but a CPU.
        return
    named: set[str] = set()
    for one, share in _elapsed(summary, of):
        workload = str(one.cell.get("workload"))
        if one.platform != baseline or workload in named or not share < IDLE:
            continue
        named.add(workload)
        yield Sentence(
            "unknown",
            f"{workload} waits for {100 * (1 - share):.0f} % of its time natively, for a "
            "clock, a terminal, a disk (its files are in memory) or another program: elapsed time is "
            "mostly that",
        )


def fixed_time(
    summary: Summary, baseline: str, wording: Wording, of: Collection[str]
) -> Iterator[Sentence]:
    """One for each of these workloads that is busy and ends by the clock: it is as quick in an emulated
    guest, or takes the same whole number of seconds everywhere.
    """
    busy = [one for one, share in _elapsed(summary, of) if share >= IDLE]
    for workload in dict.fromkeys(str(one.cell.get("workload")) for one in busy):
        own = [one for one in busy if one.cell.get("workload") == workload]
        emulated = [one for one in own if wording.accelerators.get(one.platform) == EMULATED]
        as_quick = any(one.cost is not None and one.cost < _EMULATION_COSTS - 1 for one in emulated)
        beside = any(one.platform != baseline for one in own)
        seconds = {_whole_seconds(one) for one in own}
        if as_quick or (beside and len(seconds) == 1 and None not in seconds):
            yield Sentence(
                "unknown",
                f"{workload} is busy and takes hardly longer on any platform: a program that runs for a "
                "fixed time says by its own figures how much it did. Weigh such a figure (--value, "
                "--value-json), or give it so much work, not so much time",
            )


def _elapsed(summary: Summary, of: Collection[str]) -> Iterator[tuple[Estimate, float]]:
    """Of the wall clock, and longer than a program's start; with the command's CPU time in user mode and in
    the kernel as a share of it, NaN if that is not known.
    """
    used = {
        (one.platform, key(one.cell), one.response): one.estimate
        for one in summary.estimates
        if one.response in ("user", "system")
    }
    for one in summary.estimates:
        by_clock = (one.response, one.unit) == (ELAPSED, "s") and one.estimate >= SHORT_S
        if by_clock and one.cell.get("workload") in of:
            place = (one.platform, key(one.cell))
            cpu = (used.get((*place, name), math.nan) for name in ("user", "system"))
            yield one, sum(cpu) / one.estimate


def _whole_seconds(one: Estimate) -> int | None:
    """Returns the whole seconds of an elapsed time, if it is hardly longer; else None."""
    whole = int(one.estimate + _EARLY_S)
    return whole if whole and one.estimate - whole <= _START_S else None
