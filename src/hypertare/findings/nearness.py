"""How near round trips are to the baseline's of the same block. Pure.

A trial alone does not know the baseline, so this is found of finished ones.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace

from hypertare.design.trials import FinishedTrial
from hypertare.findings.series import Rules, Series, ends_of, only_baseline_of, series
from hypertare.protocol.records import Histogram
from hypertare.runs.summary import Shift
from hypertare.stats import boots
from hypertare.stats.histograms import SHIFTED, merge, near_share, near_time, shift
from hypertare.workloads.ping import NEAR_SHARE, NEAR_TIME

Histograms = Mapping[int, Histogram]
"""The histogram of all round trips of a trial, by trial; trials without round trips are left out."""


def of_trials(of_trial: Mapping[int, Sequence[Histogram]]) -> Histograms:
    """Merges the histograms of each trial's tasks."""
    return {
        trial: merge(some)
        for trial, some in of_trial.items()
        if any(count for one in some for _, count in one.buckets)
    }


def with_nearness(
    trials: Sequence[FinishedTrial], of_trial: Histograms, baseline: str, asked: Collection[str]
) -> list[FinishedTrial]:
    """Returns the trials, with the share of near round trips added to those of platforms beside the
    baseline.

    `asked` are the names of the run's responses: an older run lacks some.
    """
    near = {
        trial.planned.id: {
            name: of(its, of_trial[trial.planned.id])
            for name, of in ((NEAR_SHARE, near_share), (NEAR_TIME, near_time))
            if name in asked
        }
        for one, base in _pairs(trials, baseline)
        for trial, its in _compared(one, base, of_trial)
    }
    return [
        replace(trial, values=trial.values | near[trial.planned.id])
        if trial.planned.id in near
        else trial
        for trial in trials
    ]


def shifts(trials: Sequence[FinishedTrial], of_trial: Histograms, rules: Rules) -> Iterator[Shift]:
    """Yields the shift function of each platform and cell: mean differences over blocks, at each share."""
    for one, base in _pairs(trials, rules.baseline):
        compared = list(_compared(one, base, of_trial))
        if not compared:
            continue
        found = [shift(its, of_trial[trial.planned.id]) for trial, its in compared]
        where = [trial.planned.boot for trial, _ in compared]
        for place, share in enumerate(SHIFTED):
            values = [differences[place] / 1e9 for differences in found]
            interval = boots.mean(values, where, rules.confidence).interval
            low, high = ends_of(interval, rules.clock == "virtual")
            yield Shift(
                cell=one.cell,
                platform=one.platform,
                baseline=rules.baseline,
                share=share,
                difference=interval.estimate,
                low=low,
                high=high,
                n=interval.n,
            )


def _pairs(trials: Sequence[FinishedTrial], baseline: str) -> Iterator[tuple[Series, Series]]:
    every = series(trials)
    for one in every:
        if base := only_baseline_of(one, every, baseline):
            yield one, base


def _compared(
    one: Series, base: Series, of_trial: Histograms
) -> Iterator[tuple[FinishedTrial, Histogram]]:
    """Trials with the round trips of the baseline in their block."""
    of_blocks: dict[int, list[Histogram]] = defaultdict(list)
    for trial in base.good:
        if trial.planned.id in of_trial:
            of_blocks[trial.planned.block].append(of_trial[trial.planned.id])
    for trial in one.good:
        its = of_blocks.get(trial.planned.block)
        if its and trial.planned.id in of_trial:
            yield trial, merge(its)
