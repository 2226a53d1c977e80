"""Everything that a report shows, gathered once from a run's store and summary.

After `gather` nothing is read any more: terminal, page, Markdown and data are functions of a `Report`.
"""

from __future__ import annotations

import shlex
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from hypertare.base.variables import ELAPSED, Level, Response
from hypertare.design.trials import FinishedTrial, Kind
from hypertare.findings import counted_trials
from hypertare.findings.doubt import disturbed
from hypertare.findings.summarise import Measured, measured
from hypertare.probes.napi import NAPI, POLLS_TRACED
from hypertare.protocol.phase import PHASE
from hypertare.protocol.records import (
    Interval,
    NodeReady,
    ProbeValues,
    Record,
    TaskResult,
)
from hypertare.report import answers, caveats, colours, verdict
from hypertare.report.answers import of_claims
from hypertare.report.translation import MeanCount, Tally
from hypertare.report.verdict import Sentence, Wording
from hypertare.runs.store import INTERRUPTED, Meta, Store
from hypertare.runs.summary import Estimate, Summary

# What a series shows of an interval, the first that it has.
_SERIES = ("goodput_bps", "sent_bps")
# Points of a distribution that an eye can separate in a chart.
_ECDF_POINTS = 160

# CPU time by what it was spent on, from the names of the probes' values. `guest_s` is left out:
# the kernel counts it in `user_s` already.
_MODES: Mapping[str, tuple[str, ...]] = {
    "user": ("user_s", "nice_s"),
    "kernel": ("system_s",),
    "interrupts": ("irq_s", "softirq_s"),
    "stolen": ("steal_s",),
}


MOST_CELLS = 3
"""Most cells of a run whose figures are read one by one."""
MOST_WHOLE_CELLS = 64
"""Most cells of which a page holds every response, chart and trial, some 0.2 MB each."""


@dataclass(frozen=True)
class Point:
    """One value of one trial."""

    trial: int
    block: int
    boot: int
    platform: str
    cell: str
    response: str
    value: float
    kind: Kind


@dataclass(frozen=True)
class SeriesPoint:
    """One interval within a trial; never a replicate."""

    trial: int
    platform: str
    cell: str
    task: str
    what: str
    t_s: float
    value: float


@dataclass(frozen=True)
class EcdfPoint:
    """`share` of the round trips took at most `value` seconds."""

    platform: str
    cell: str
    value_s: float
    share: float


@dataclass(frozen=True)
class Polls:
    """How many polls of the NIC found so many packets, over all counted trials; `share` of all polls."""

    platform: str
    cell: str
    packets: int
    count: int
    share: float


@dataclass(frozen=True)
class CpuTime:
    """CPU seconds of one mode a trial, the mean over trials, seen from one place."""

    platform: str
    cell: str
    seen: str
    mode: str
    seconds_s: float
    trials: int


@dataclass(frozen=True)
class Failure:
    trial: int
    platform: str
    cell: str
    reason: str
    console: tuple[str, ...]
    output: dict[str, str]


@dataclass(frozen=True)
class Report:
    """The findings of a run, ready to be shown.

    `answers` are one-line answers, `verdicts` has a sentence for each comparison. `remarks` are further
    sentences: levels that depend on the platform, failures, and the least difference that could have been
    shown. `printed` is the last line of a good run on the baseline, by cell.
    """

    source: Path
    meta: Meta
    summary: Summary
    wording: Wording
    answers: tuple[Sentence, ...]
    verdicts: tuple[Sentence, ...]
    remarks: tuple[Sentence, ...]
    points: tuple[Point, ...]
    series: tuple[SeriesPoint, ...]
    ecdf: tuple[EcdfPoint, ...]
    polls: tuple[Polls, ...]
    cpu: tuple[CpuTime, ...]
    translation: tuple[MeanCount, ...]
    failures: tuple[Failure, ...]
    printed: dict[str, str]
    warnings: tuple[str, ...]
    vmm_commands: dict[str, str]
    commands: tuple[str, ...]
    trials: tuple[FinishedTrial, ...]

    @property
    def ended_by(self) -> str:
        """The reason why a run is not complete: interrupted, or its time limit."""
        interrupted = any(INTERRUPTED in warning for warning in self.warnings)
        return "interrupted" if interrupted else "time limit"

    def responses(self, workload: str) -> dict[str, Response]:
        return {response.name: response for response in self.meta.responses.get(workload, ())}

    @cached_property
    def platforms(self) -> tuple[str, ...]:
        """Names of the platforms, variants apart, in order of display."""
        return tuple(self.platform_of)

    @cached_property
    def platform_of(self) -> dict[str, str]:
        """The platform of each of `platforms`, in their order."""
        named = {
            self.wording.platform(
                trial.planned.platform, trial.planned.cell
            ): trial.planned.platform
            for trial in of_cells(self.trials)
        }
        places = _places(self.meta.platforms)
        order = sorted(named, key=lambda name: (places.get(named[name], len(places)), name))
        return {name: named[name] for name in order}

    @cached_property
    def colours(self) -> dict[str, str]:
        """The colour of each of `platforms`, by name."""
        return colours.of_platforms(self.platform_of)

    @cached_property
    def cells(self) -> dict[str, dict[str, Level]]:
        """The cells by their labels, in the order in which the study names their levels."""
        made: dict[str, dict[str, Level]] = {}
        for trial in counted_trials.in_order(
            of_cells(self.trials), self.meta.settings, self.meta.platforms
        ):
            made.setdefault(self.wording.label(trial.planned.cell), trial.planned.cell)
        return made

    @property
    def leading(self) -> list[Estimate]:
        """What was compared of the responses that lead, in order of display."""
        return _leading(self.summary, self.meta, self.wording)

    def estimates(self, label: str | None = None) -> list[Estimate]:
        """Estimates in order of display, of one cell or of all."""
        return self._in_order if label is None else self._estimates_of.get(label, [])

    @property
    def has_many_cells(self) -> bool:
        """Whether figures over all cells come first, and single cells only on request."""
        return len(self.cells) > MOST_CELLS

    @property
    def has_hundreds_of_cells(self) -> bool:
        """Whether a page shows only the leading response of each cell, and more of the cells asked for."""
        return len(self.cells) > MOST_WHOLE_CELLS

    def points_of(self, label: str, response: str) -> list[Point]:
        """Every good trial's value of a response in a cell."""
        return self._points_of.get((label, response), [])

    @cached_property
    def _in_order(self) -> list[Estimate]:
        return in_order(self.summary.estimates, self.meta, self.wording)

    @cached_property
    def _estimates_of(self) -> dict[str, list[Estimate]]:
        made: dict[str, list[Estimate]] = {}
        for estimate in self.estimates():
            made.setdefault(self.wording.label(estimate.cell), []).append(estimate)
        return made

    @cached_property
    def _points_of(self) -> dict[tuple[str, str], list[Point]]:
        made: dict[tuple[str, str], list[Point]] = {}
        for point in self.points:
            made.setdefault((point.cell, point.response), []).append(point)
        return made


def gather(store: Store, summary: Summary, of: Measured | None = None) -> Report:
    """Reads what a report shows.

    Args:
        store: the run.
        summary: of it.
        of: its trials, of who has read them.

    Raises:
        InputError: the run's file is damaged.
    """
    meta = store.meta
    trials = (of or measured(store)).trials
    wording = Wording.of(summary, of_cells(trials))
    series: list[SeriesPoint] = []
    round_trips: defaultdict[_Place, Counter[float]] = defaultdict(Counter)
    polls: defaultdict[_Place, Counter[int]] = defaultdict(Counter)
    cpu = _CpuMaker(summary)
    translation = Tally()
    failed: list[Failure] = []
    printed: dict[str, str] = {}
    besides = caveats.Besides()
    for trial in trials:
        place = _, cell = _place(trial, wording)
        records = store.records(trial.planned.id)
        if trial.status == "ok" and trial.planned.platform == meta.baseline:
            printed.setdefault(cell, caveats.last_line(records))
            besides.add(trial.planned.workload, records)
        if trial.status == "failed":
            failed.append(_failure(trial, place, records))
        elif trial.planned.kind == "warmup":
            polls[place].update(_polls(records, POLLS_TRACED.name))
        elif trial.counts:
            records = [record for record in records if getattr(record, "phase", PHASE) == PHASE]
            series += _series(trial, place, records)
            round_trips[place].update(_round_trips(records))
            polls[place].update(_polls(records, NAPI.name))
            cpu.add(trial, place, records)
            translation.add(*place, trial.planned.workload, records)
    return Report(
        source=store.path,
        meta=meta,
        summary=summary,
        wording=wording,
        answers=tuple(_answers(meta, summary, wording)),
        verdicts=tuple(_verdicts(meta, summary, wording)),
        remarks=tuple(_remarks(meta, summary, wording, trials, printed, besides)),
        points=tuple(_points(of_cells(trials), wording)),
        series=tuple(series),
        ecdf=tuple(_ecdf(round_trips)),
        polls=tuple(
            Polls(*place, packets, count, count / counts.total())
            for place, counts in polls.items()
            for packets, count in sorted(counts.items())
        ),
        cpu=tuple(cpu.times()),
        translation=tuple(translation.parts()),
        failures=tuple(failed),
        printed=printed,
        warnings=summary.warnings,
        vmm_commands=_vmm_commands(store),
        commands=tuple(_commands(meta, store.path)),
        trials=trials,
    )


def of_cells(trials: Iterable[FinishedTrial]) -> tuple[FinishedTrial, ...]:
    """Without those of searches and capacities, which are shown as what they found."""
    return tuple(trial for trial in trials if trial.planned.of_cell)


def in_order(estimates: Iterable[Estimate], meta: Meta, wording: Wording) -> list[Estimate]:
    """By cell, response and platform as the study names them; a summary's stand by cell."""
    every = list(estimates)
    cells = _places(dict.fromkeys(wording.label(one.cell) for one in every))
    platforms = _places(meta.platforms)
    responses = {
        workload: _places(response.name for response in known)
        for workload, known in meta.responses.items()
    }

    def place(one: Estimate) -> tuple[int, int, int, str]:
        known = responses.get(str(one.cell.get("workload")), {})
        return (
            cells[wording.label(one.cell)],
            known.get(one.response, len(known)),
            platforms.get(one.platform, len(platforms)),
            wording.platform(one.platform, one.cell),
        )

    return sorted(every, key=place)


def _leading(summary: Summary, meta: Meta, wording: Wording) -> list[Estimate]:
    leading = (
        one
        for one in summary.estimates
        if one.baseline is not None
        and one.response == meta.headline.get(str(one.cell.get("workload")))
    )
    return in_order(leading, meta, wording)


# --- parts


_Place = tuple[str, str]
"""Where a trial's numbers are shown: its platform's and its cell's name."""


def _place(trial: FinishedTrial, wording: Wording) -> _Place:
    planned = trial.planned
    return wording.platform(planned.platform, planned.cell), wording.label(planned.cell)


def _answers(meta: Meta, summary: Summary, wording: Wording) -> Iterator[Sentence]:
    sentences = (
        of_claims(summary.claims),
        answers.fastest(summary, wording),
        None if summary.fastest else answers.answer(summary, wording),
        verdict.answer(_leading(summary, meta, wording), wording),
    )
    return (one for one in sentences if one is not None)


def _verdicts(meta: Meta, summary: Summary, wording: Wording) -> Iterator[Sentence]:
    several = len({wording.label(one.cell) for one in summary.estimates}) > 1
    yield from answers.verdicts(summary, wording)
    for estimate in _leading(summary, meta, wording):
        yield verdict.sentence(estimate, wording, several)


def _remarks(
    meta: Meta,
    summary: Summary,
    wording: Wording,
    trials: Sequence[FinishedTrial],
    printed: Mapping[str, str],
    besides: caveats.Besides,
) -> Iterator[Sentence]:
    yield from caveats.no_work(summary, meta.baseline, wording, printed)
    yield from besides.sentences()
    by_clock = {name for name, response in meta.headline.items() if response == ELAPSED}
    yield from caveats.waiting(summary, meta.baseline, wording, by_clock)
    yield from caveats.fixed_time(summary, meta.baseline, wording, by_clock)
    yield from answers.turned(summary.levels, wording)
    counts = Counter(_place(trial, wording) for trial in trials)
    yield from caveats.sentences(summary.failed, meta.baseline, wording, counts)
    if summary.disturbances:
        # They took CPU time from the run.
        yield Sentence("unknown", disturbed(summary.disturbances))
    if _leading(summary, meta, wording):
        yield verdict.least(summary, wording, meta.headline)


def _points(trials: Iterable[FinishedTrial], wording: Wording) -> Iterator[Point]:
    for trial in trials:
        planned, place = trial.planned, _place(trial, wording)
        at = (planned.id, planned.block, planned.boot, *place)
        for response, value in trial.values.items():
            yield Point(*at, response, value, planned.kind)


def _series(
    trial: FinishedTrial, place: _Place, records: Sequence[Record]
) -> Iterator[SeriesPoint]:
    intervals = [record for record in records if isinstance(record, Interval)]
    what = next((name for name in _SERIES if any(name in i.values for i in intervals)), None)
    for interval in intervals:
        if what is not None and what in interval.values:
            middle = (interval.begin_s + interval.end_s) / 2
            value = interval.values[what]
            yield SeriesPoint(trial.planned.id, *place, interval.task, what, middle, value)


def _round_trips(records: Sequence[Record]) -> Counter[float]:
    """How many took how many seconds, in a trial's histograms."""
    counts: Counter[float] = Counter()
    for record in records:
        histogram = record.histograms.get("rtt") if isinstance(record, TaskResult) else None
        if histogram and histogram.unit in _SECONDS:
            for edge, count in histogram.buckets:
                # Nought has no place on a logarithmic axis.
                if count > 0 and edge > 0:
                    counts[edge * _SECONDS[histogram.unit]] += count
    return counts


def _ecdf(round_trips: Mapping[_Place, Counter[float]]) -> Iterator[EcdfPoint]:
    for place, counts in round_trips.items():
        total = counts.total()
        below, shown = 0, -1.0
        for edge, count in sorted(counts.items()):
            below += count
            share = below / total
            if share - shown >= 1 / _ECDF_POINTS or below == total:
                shown = share
                yield EcdfPoint(*place, edge, share)


def _polls(records: Sequence[Record], probe: str) -> Counter[int]:
    """How many found how many packets. Only the node under test is asked for its polls."""
    counts: Counter[int] = Counter()
    for record in records:
        if isinstance(record, ProbeValues) and record.probe == probe:
            counts.update(NAPI.histogram(records, record.node))
    return counts


_SECONDS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0}

_SEEN = {
    "outside": ("cgroup", "VMM, from outside"),
    "stat": ("whole machine", "guest, from inside"),
}
"""What a probe sees of a node that is no guest, and of a guest."""


class _CpuMaker:
    """Means of CPU time by platform, cell, place and mode."""

    def __init__(self, summary: Summary) -> None:
        self._guests = {state.node for state in summary.platforms if state.vmm}
        self._sums: defaultdict[tuple[_Place, str], dict[str, float]] = defaultdict(
            lambda: dict.fromkeys(_MODES, 0.0)
        )
        self._trials: defaultdict[tuple[_Place, str], set[int]] = defaultdict(set)

    def add(self, trial: FinishedTrial, place: _Place, records: Sequence[Record]) -> None:
        for record in records:
            if isinstance(record, ProbeValues) and record.probe in _SEEN and record.values:
                seen = _SEEN[record.probe][record.node in self._guests]
                for mode, names in _MODES.items():
                    seconds = sum(record.values.get(name, 0.0) for name in names)
                    self._sums[place, seen][mode] += seconds
                self._trials[place, seen].add(trial.planned.id)

    def times(self) -> Iterator[CpuTime]:
        for (place, seen), sums in self._sums.items():
            trials = len(self._trials[place, seen])
            for mode, seconds in sums.items():
                yield CpuTime(*place, seen, mode, seconds / trials, trials)


def _failure(trial: FinishedTrial, place: _Place, records: Sequence[Record]) -> Failure:
    output: dict[str, str] = {}
    for record in records:
        if isinstance(record, TaskResult):
            output |= {f"{record.node}, {name}": text for name, text in record.text.items() if text}
    reason = trial.error or "no reason given"
    return Failure(trial.planned.id, *place, reason, trial.console, output)


def _vmm_commands(store: Store) -> dict[str, str]:
    """The last command line of each node's VMM."""
    return {
        record.node: shlex.join(record.vmm_argv)
        for _, records in store.benches()
        for record in records
        if isinstance(record, NodeReady) and record.vmm_argv
    }


def _commands(meta: Meta, path: Path) -> Iterator[str]:
    if meta.argv:
        again = ["hypertare", *_without_place(meta.argv[1:])]
        if "--seed" not in again:
            place = again.index("--") if "--" in again else len(again)
            again[place:place] = ["--seed", str(meta.seed)]
        yield shlex.join(again)
    yield shlex.join(["hypertare", "report", str(path.parent)])


def _without_place(argv: Sequence[str]) -> Iterator[str]:
    """Where a run was put is no part of how it is made, and there it cannot be made once more."""
    words = iter(argv)
    for word in words:
        if word == "--":
            yield from (word, *words)
        elif word == "--out":
            next(words, None)
        elif not word.startswith("--out="):
            yield word


def _places(order: Iterable[str]) -> dict[str, int]:
    return {item: place for place, item in enumerate(order)}
