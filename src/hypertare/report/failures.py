"""What failed, said once and in its own words."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from hypertare.report.verdict import Sentence, Wording
from hypertare.runs.summary import FailedTrial

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
