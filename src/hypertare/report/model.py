"""Everything that a report shows, gathered once from a run's store and summary.

After `gather` nothing is read any more: terminal, HTML and exports are functions of a `Report`.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from hypertare.records import (
    Histogram,
    Interval,
    Log,
    NodeReady,
    ProbeValues,
    Record,
    TaskResult,
)
from hypertare.report import verdict
from hypertare.report.verdict import Sentence, Wording
from hypertare.store import Meta, Store
from hypertare.summary import Estimate, Level, Summary
from hypertare.trials import FinishedTrial, Response

# What a series shows of an interval, the first that it has.
_SERIES = ("goodput_bps", "received_bps", "sent_bps")
# Points of a distribution that an eye can tell apart in a chart.
_ECDF_POINTS = 160

# CPU time by what it was spent on, from the names of the probes' values. `guest_s` is left out:
# the kernel counts it in `user_s` already.
_MODES: Mapping[str, tuple[str, ...]] = {
    "user": ("user_s", "nice_s"),
    "kernel": ("system_s",),
    "interrupts": ("irq_s", "softirq_s"),
    "stolen": ("steal_s",),
}


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
    kind: Literal["warmup", "measured"]


@dataclass(frozen=True)
class SeriesPoint:
    """One interval within a trial; never a replicate."""

    trial: int
    platform: str
    cell: str
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
    """What a run found, ready to be shown."""

    source: Path
    meta: Meta
    summary: Summary
    wording: Wording
    sentences: tuple[Sentence, ...]
    points: tuple[Point, ...]
    series: tuple[SeriesPoint, ...]
    ecdf: tuple[EcdfPoint, ...]
    cpu: tuple[CpuTime, ...]
    failures: tuple[Failure, ...]
    warnings: tuple[str, ...]
    vmm_commands: dict[str, str]
    commands: tuple[str, ...]
    trials: tuple[FinishedTrial, ...]

    @property
    def responses(self) -> dict[str, Response]:
        return {response.name: response for response in self.meta.responses}

    @property
    def platforms(self) -> tuple[str, ...]:
        """In order of display: the study's, then what else turned up."""
        found = [trial.planned.platform for trial in self.trials]
        return tuple(dict.fromkeys([*self.meta.platforms, *found]))

    def cells(self) -> dict[str, dict[str, Level]]:
        """The cells by their labels, in the order in which they were first met."""
        made: dict[str, dict[str, Level]] = {}
        for trial in self.trials:
            made.setdefault(self.wording.label(trial.planned.cell), trial.planned.cell)
        return made

    def estimates(self, label: str | None = None) -> list[Estimate]:
        """Estimates in order of display, of one cell or of all."""
        chosen = [
            estimate
            for estimate in self.summary.estimates
            if label is None or self.wording.label(estimate.cell) == label
        ]
        return in_order(chosen, self.meta, self.wording, self.trials)


def gather(store: Store, summary: Summary) -> Report:
    """Reads what a report shows.

    Raises:
        InputError: the run's file is damaged.
    """
    meta = store.meta
    trials = tuple(store.trials())
    wording = _wording(summary, meta, trials)
    series: list[SeriesPoint] = []
    ecdf = _EcdfMaker()
    cpu = _CpuMaker(summary)
    failures: list[Failure] = []
    warnings = list(summary.warnings)
    for trial in trials:
        label = wording.label(trial.planned.cell)
        records = store.records(trial.planned.id)
        warnings += _logged(records)
        if trial.status == "failed":
            failures.append(_failure(trial, label, records))
        elif trial.counts:
            series += _series(trial, label, records)
            ecdf.add(trial, label, records)
            cpu.add(trial, label, records)
    return Report(
        source=store.path,
        meta=meta,
        summary=summary,
        wording=wording,
        sentences=tuple(_sentences(meta, summary, wording, trials)),
        points=tuple(_points(trials, wording)),
        series=tuple(series),
        ecdf=tuple(ecdf.points()),
        cpu=tuple(cpu.times()),
        failures=tuple(failures),
        warnings=tuple(dict.fromkeys(warnings)),
        vmm_commands=_vmm_commands(store),
        commands=tuple(_commands(meta, store.path)),
        trials=trials,
    )


def headline(meta: Meta, summary: Summary) -> list[Estimate]:
    """The costs that answer the question: the headline responses', or the first of each cell."""
    order = {response.name: place for place, response in enumerate(meta.responses)}
    against = [e for e in summary.estimates if e.baseline is not None]
    if meta.headline:
        return [e for e in against if e.response in meta.headline]
    first: dict[str, int] = {}
    for estimate in against:
        key = json.dumps(estimate.cell, sort_keys=True)
        place = order.get(estimate.response, len(order))
        first[key] = min(first.get(key, place), place)
    return [
        e
        for e in against
        if order.get(e.response, len(order)) == first[json.dumps(e.cell, sort_keys=True)]
    ]


def in_order(
    estimates: Iterable[Estimate], meta: Meta, wording: Wording, trials: Sequence[FinishedTrial]
) -> list[Estimate]:
    """By cell as first met, then by response and platform as the study names them."""
    cells = list(dict.fromkeys(wording.label(trial.planned.cell) for trial in trials))
    responses = [response.name for response in meta.responses]

    def place(estimate: Estimate) -> tuple[int, int, int]:
        return (
            _index(cells, wording.label(estimate.cell)),
            _index(responses, estimate.response),
            _index(meta.platforms, estimate.platform),
        )

    return sorted(estimates, key=place)


# --- parts


def _wording(summary: Summary, meta: Meta, trials: Sequence[FinishedTrial]) -> Wording:
    wording = Wording.of(summary, meta.responses)
    label = verdict.cell_label([trial.planned.cell for trial in trials])
    return Wording(wording.titles, label, wording.accelerators, wording.clock)


def _sentences(
    meta: Meta, summary: Summary, wording: Wording, trials: Sequence[FinishedTrial]
) -> Iterator[Sentence]:
    labels = [wording.label(trial.planned.cell) for trial in trials]
    several = len(set(labels)) > 1
    for estimate in in_order(headline(meta, summary), meta, wording, trials):
        yield verdict.sentence(estimate, wording, several)
    counts: dict[tuple[str, str], int] = {}
    for trial in trials:
        key = (trial.planned.platform, wording.label(trial.planned.cell))
        counts[key] = counts.get(key, 0) + 1
    yield from verdict.failures(summary, wording, counts)
    noise = verdict.noise(summary, wording)
    if noise:
        yield noise


def _points(trials: Iterable[FinishedTrial], wording: Wording) -> Iterator[Point]:
    for trial in trials:
        planned = trial.planned
        for response, value in trial.values.items():
            yield Point(
                planned.id,
                planned.block,
                planned.boot,
                planned.platform,
                wording.label(planned.cell),
                response,
                value,
                planned.kind,
            )


def _series(trial: FinishedTrial, label: str, records: Sequence[Record]) -> Iterator[SeriesPoint]:
    intervals = [record for record in records if isinstance(record, Interval)]
    what = next((name for name in _SERIES if any(name in i.values for i in intervals)), None)
    if what is None:
        return
    for interval in intervals:
        if what in interval.values:
            middle = (interval.begin_s + interval.end_s) / 2
            yield SeriesPoint(
                trial.planned.id,
                trial.planned.platform,
                label,
                what,
                middle,
                interval.values[what],
            )


class _EcdfMaker:
    """Adds up the round-trip times of every trial of a platform in a cell."""

    def __init__(self) -> None:
        self._counts: dict[tuple[str, str], dict[float, int]] = {}

    def add(self, trial: FinishedTrial, label: str, records: Sequence[Record]) -> None:
        for record in records:
            histogram = record.histograms.get("rtt") if isinstance(record, TaskResult) else None
            if histogram and histogram.unit in _SECONDS:
                counts = self._counts.setdefault((trial.planned.platform, label), {})
                for edge, count in _buckets(histogram):
                    counts[edge] = counts.get(edge, 0) + count

    def points(self) -> Iterator[EcdfPoint]:
        for (platform, label), counts in self._counts.items():
            total = sum(counts.values())
            below, shown = 0, -1.0
            for edge in sorted(counts):
                below += counts[edge]
                share = below / total
                if share - shown >= 1 / _ECDF_POINTS or below == total or shown < 0:
                    shown = share
                    yield EcdfPoint(platform, label, edge, share)


_SECONDS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0}


def _buckets(histogram: Histogram) -> Iterator[tuple[float, int]]:
    for edge, count in histogram.buckets:
        # Nought has no place on a logarithmic axis.
        if count > 0 and edge > 0:
            yield edge * _SECONDS[histogram.unit], count


class _CpuMaker:
    """Means of CPU time by platform, cell, place and mode."""

    def __init__(self, summary: Summary) -> None:
        self._guests = {state.platform: state.node for state in summary.platforms if state.vmm}
        self._sums: dict[tuple[str, str, str], dict[str, float]] = {}
        self._trials: dict[tuple[str, str, str], set[int]] = {}

    def add(self, trial: FinishedTrial, label: str, records: Sequence[Record]) -> None:
        platform = trial.planned.platform
        for record in records:
            if not isinstance(record, ProbeValues) or record.unavailable:
                continue
            seen = self._seen(platform, record)
            modes = {
                mode: sum(record.values.get(name, 0.0) for name in names)
                for mode, names in _MODES.items()
            }
            if seen is None or not any(modes.values()):
                continue
            sums = self._sums.setdefault((platform, label, seen), {})
            for mode, seconds in modes.items():
                sums[mode] = sums.get(mode, 0.0) + seconds
            self._trials.setdefault((platform, label, seen), set()).add(trial.planned.id)

    def _seen(self, platform: str, record: ProbeValues) -> str | None:
        guest = self._guests.get(platform) == record.node
        if record.probe == "outside":
            return "its VMM, from outside" if guest else "its cgroup"
        if record.probe == "stat":
            return "inside the guest" if guest else "whole machine"
        return None

    def times(self) -> Iterator[CpuTime]:
        for (platform, label, seen), sums in self._sums.items():
            trials = len(self._trials[platform, label, seen])
            for mode, seconds in sums.items():
                yield CpuTime(platform, label, seen, mode, seconds / trials, trials)


def _failure(trial: FinishedTrial, label: str, records: Sequence[Record]) -> Failure:
    output: dict[str, str] = {}
    for record in records:
        if isinstance(record, TaskResult):
            output |= {f"{record.node}, {name}": text for name, text in record.text.items() if text}
    return Failure(
        trial.planned.id,
        trial.planned.platform,
        label,
        trial.error or "no reason given",
        trial.console,
        output,
    )


def _logged(records: Sequence[Record]) -> Iterator[str]:
    for record in records:
        if isinstance(record, Log) and record.level == "warning":
            yield f"{record.node}: {record.text}"


def _vmm_commands(store: Store) -> dict[str, str]:
    made: dict[str, str] = {}
    for bench in store.benches():
        nodes = {state.node: state.platform for state in bench.platforms}
        for record in store.bench_records(bench.boot):
            if isinstance(record, NodeReady) and record.vmm_argv:
                platform = nodes.get(record.node, record.node)
                made.setdefault(platform, shlex.join(record.vmm_argv))
    return made


def _commands(meta: Meta, path: Path) -> Iterator[str]:
    if meta.argv:
        again = list(meta.argv)
        if "--seed" not in again:
            place = again.index("--") if "--" in again else len(again)
            again[place:place] = ["--seed", str(meta.seed)]
        yield shlex.join(again)
    yield shlex.join(["hypertare", "report", str(path.parent)])


def _index(order: Sequence[str], item: str) -> int:
    return order.index(item) if item in order else len(order)
