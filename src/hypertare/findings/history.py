"""The same work over many runs: its level today, how much runs differ, where it changed. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from typing import Literal

from hypertare.base.closed import Closed
from hypertare.base.variables import Better, Level, key
from hypertare.findings.setups import unlike_runs
from hypertare.runs.summary import Estimate, Summary
from hypertare.stats import interval
from hypertare.stats.anomalies import change_points
from hypertare.stats.ratio import of_cost

ALPHA = 0.05


@dataclass(frozen=True)
class Past:
    """A run of the past: its name, and what it found."""

    name: str
    summary: Summary


class Point(Closed):
    """What one run found: a cost as a share of the baseline, or a value, with the run's own interval."""

    run: str
    started: datetime
    value: float
    low: float | None
    high: float | None


class Shift(Closed):
    """A new level, from this run on. `before` and `after` are the means of both levels; `differs` is what
    of the setup is not as it was in the run before.
    """

    run: str
    started: datetime
    before: float
    after: float
    differs: tuple[str, ...]


class Trend(Closed):
    """A leading response of one platform in one cell, over runs.

    `of` says what: the cost against the baseline or, where there is none, the response in `unit`.
    `mean`, `low` and `high` are of the runs since the last shift, each run one value, so that what changes
    from day to day is in the interval. `between` is how much these runs differ, as a share (one standard
    deviation); absent of one run.
    """

    response: str
    unit: str
    better: Better
    platform: str
    cell: dict[str, Level]
    of: Literal["cost", "value"]
    points: tuple[Point, ...]
    shifts: tuple[Shift, ...]
    mean: float
    low: float | None
    high: float | None
    between: float | None


class History(Closed):
    """Runs of the same work in order, and what they found; `left_out` did other work."""

    study: str
    question: str
    runs: tuple[str, ...]
    left_out: tuple[str, ...]
    trends: tuple[Trend, ...]


def history(
    past: Sequence[Past],
    headline: Mapping[str, str],
    *,
    left_out: Sequence[str] = (),
    responses: Collection[str] = (),
    platforms: Collection[str] = (),
) -> History:
    """Of runs in the order in which they were started, one at least.

    Args:
        headline: by workload, the response that is the question.
        responses, platforms: what is asked for; else the leading responses, on all platforms. The
            baseline's own value is given where it is named, or nothing is compared with it.
    """

    def is_wanted(one: Estimate) -> bool:
        leads = one.response == headline.get(str(one.cell.get("workload")))
        asked = one.response in responses if responses else leads
        here = not platforms or one.platform in platforms
        return asked and here and one.guest is None and _log(one) is not None

    found: dict[object, list[tuple[int, Estimate]]] = {}
    for number, one in enumerate(past):
        for estimate in one.summary.estimates:
            if is_wanted(estimate):
                place = estimate.platform, estimate.response, key(estimate.cell)
                found.setdefault(place, []).append((number, estimate))
    series = list(found.values())
    if any(seen[0][1].cost is not None for seen in series) and not platforms:
        series = [seen for seen in series if seen[0][1].baseline is not None]
    last = past[-1].summary
    return History(
        study=last.study,
        question=last.question,
        runs=tuple(one.name for one in past),
        left_out=tuple(left_out),
        trends=tuple(_trend(past, seen, ALPHA / len(series)) for seen in series),
    )


def _trend(past: Sequence[Past], seen: Sequence[tuple[int, Estimate]], alpha: float) -> Trend:
    last = seen[-1][1]
    kind: Literal["cost", "value"] = "value" if last.cost is None else "cost"
    seen = [one for one in seen if (one[1].cost is None) == (last.cost is None)]
    logs = [log for _, one in seen if (log := _log(one)) is not None]
    back = _back(last)
    starts = change_points(logs, alpha)
    today = interval.of_mean(logs[starts[-1] if starts else 0 :])
    ends = [None if end is None else back(end) for end in (today.low, today.high)]
    low, high = sorted(ends) if None not in ends else (None, None)  # type: ignore[type-var]
    spread = today.error * math.sqrt(today.n)
    return Trend(
        response=last.response,
        unit=last.unit,
        better=last.better,
        platform=last.platform,
        cell=last.cell,
        of=kind,
        points=tuple(_point(past[number], one) for number, one in seen),
        shifts=tuple(_shifts(past, [number for number, _ in seen], logs, starts, back)),
        mean=back(today.estimate),
        low=low,
        high=high,
        between=math.expm1(spread) if today.n > 1 else None,
    )


def _shifts(
    past: Sequence[Past],
    numbers: Sequence[int],
    logs: Sequence[float],
    starts: Sequence[int],
    back: Callable[[float], float],
) -> Iterator[Shift]:
    edges = [0, *starts, len(logs)]
    means = [sum(logs[a:b]) / (b - a) for a, b in pairwise(edges)]
    for at, (before, after) in zip(starts, pairwise(means), strict=True):
        run, earlier = past[numbers[at]], past[numbers[at - 1]]
        yield Shift(
            run=run.name,
            started=run.summary.started,
            before=back(before),
            after=back(after),
            differs=tuple(unlike_runs(run.summary, earlier.summary)),
        )


def _point(run: Past, one: Estimate) -> Point:
    value, low, high = (
        (one.estimate, one.low, one.high)
        if one.cost is None
        else (one.cost, one.cost_low, one.cost_high)
    )
    return Point(run=run.name, started=run.summary.started, value=value, low=low, high=high)


def _log(one: Estimate) -> float | None:
    """Of the ratio to the baseline, or of the value where it has none."""
    ratio = one.estimate
    if one.cost is not None:
        ratio = of_cost(one.cost, one.better)
    elif one.difference is not None:
        return None
    return math.log(ratio) if ratio > 0 else None


def _back(one: Estimate) -> Callable[[float], float]:
    """From a log to what is reported: a value, or a cost."""
    if one.cost is None:
        return math.exp
    return math.expm1 if one.better == "lower" else lambda log: -math.expm1(log)
