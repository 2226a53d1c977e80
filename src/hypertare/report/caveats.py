"""What a report says beside its verdicts: what failed, and whether elapsed time is a command's work."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from hypertare.base import figures
from hypertare.base.figures import listing
from hypertare.base.variables import ELAPSED, key
from hypertare.protocol.records import Record, TaskResult
from hypertare.report.verdict import Sentence, Wording
from hypertare.runs.summary import Estimate, FailedTrial, Summary

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


_TASK = re.compile(r"^task \S+ on \S+ failed: ")
_OUTPUT = re.compile(r"; the end of its standard (?:error|output):\n")
_NETWORK = re.compile(
    r"name resolution|Network is unreachable|Could not resolve|Name or service not known|"
    r"getaddrinfo|No route to host",
    re.IGNORECASE,
)
"""Error messages of programs that find no network."""

NO_NETWORK = (
    "there is no network inside, on any platform: fetch what the command needs before, into its work "
    "directory, or give it this host's (--network host, natively and in a container), or a server to speak "
    "with (--peer)"
)

_MEMORY = re.compile(
    r"killed by SIGBUS|\bMemoryError\b|Cannot allocate memory|bad_alloc|out of memory|"
    r"memory exhausted|heap out of|No space left on device",
    re.IGNORECASE,
)
"""Error messages of programs that run out of memory, in which files are held too."""
NO_MEMORY = (
    "it wants more memory than a container and a guest have, where files are in memory too: give them more "
    "with --memory (in a study: sut.memory)"
)
_INSTRUCTION = re.compile(r"killed by SIGILL|Illegal instruction", re.IGNORECASE)
NO_INSTRUCTION = (
    "the CPU model of the guest lacks an instruction that the program uses (as AVX-512, where the guest is "
    "emulated): have it choose by cpuid, build it for an older CPU (-march=x86-64-v2), or set another "
    "model in a study (sut.cpu_model)"
)


@dataclass(frozen=True)
class Reason:
    """The reason of a failure: `what` happened, and the last lines that the program printed (`said`)."""

    what: str
    said: tuple[str, ...]

    @classmethod
    def of(cls, text: str) -> Reason:
        what, *said = _OUTPUT.split(_TASK.sub("", text), maxsplit=1)
        return cls(what, tuple(line for line in "".join(said).splitlines() if line.strip()))

    @property
    def text(self) -> str:
        return f"{self.what}: {self.said[-1].strip()}" if self.said else self.what

    @property
    def before(self) -> tuple[str, ...]:
        """The lines that led to the last one."""
        return self.said[:-1]


Trials = Mapping[tuple[str, str], int]
"""How many there were, by platform and cell as a report names them."""


def sentences(
    failed: Sequence[FailedTrial], baseline: str, wording: Wording, trials: Trials
) -> Iterator[Sentence]:
    """One for each platform in each cell; one alone for what fails on the baseline already."""
    groups: dict[tuple[str, str], list[FailedTrial]] = {}
    for trial in failed:
        place = (wording.label(trial.cell), wording.platform(trial.platform, trial.cell))
        groups.setdefault(place, []).append(trial)
    natively = {
        (label, Reason.of(group[0].reason).what): Reason.of(group[0].reason)
        for (label, platform), group in groups.items()
        if group[0].platform == baseline and len(group) == trials.get((platform, label))
    }
    for (label, _), reason in natively.items():
        what = reason.what.replace(" ended with ", " ends with ", 1)
        last = f": {reason.said[-1].strip()}" if reason.said else ""
        yield Sentence(
            "failed", f"{what} natively already, so {label} was left out{last}", reason.before
        )
    for (label, platform), group in groups.items():
        reasons = [Reason.of(trial.reason) for trial in group]
        if all((label, reason.what) in natively for reason in reasons):
            continue
        usual = max(reasons, key=reasons.count)
        also = ", and other reasons" if len(set(reasons)) > 1 else ""
        of = trials.get((platform, label), len(group))
        text = f"{platform} failed in {len(group)} of {of} trials of {label}: {usual.text}{also}"
        yield Sentence("failed", text, usual.before)
    if any(_NETWORK.search(trial.reason) for trial in failed):
        yield Sentence("failed", NO_NETWORK)
    # Of the baseline it is the program's own, or this host's.
    elsewhere = [trial.reason for trial in failed if trial.platform != baseline]
    if any(_MEMORY.search(reason) and "--memory" not in reason for reason in elsewhere):
        yield Sentence("failed", NO_MEMORY)
    if any(_INSTRUCTION.search(reason) for reason in elsewhere):
        yield Sentence("failed", NO_INSTRUCTION)


def is_said(reason: str, sentences: Sequence[Sentence]) -> bool:
    """Whether one of the sentences already gives this reason of a failure."""
    one = Reason.of(reason)
    last = one.said[-1].strip() if one.said else one.what
    return any(last in sentence.text for sentence in sentences)
