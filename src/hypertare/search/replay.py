"""One search as a pure function of its trials: what to measure next, or what was found.

The search is MLRsearch (Multiple Loss Ratio search) of FD.io CSIT, draft-ietf-bmwg-mlrsearch. Its
code calls a measurer and waits for the answer. Here the trials so far answer it in turn, and where
they end it is left. So a search stops and goes on, runs beside others and is shown at any moment, and
nothing of it needs to be kept but its trials.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

from MLRsearch import (
    AbstractMeasurer,
    Config,
    GoalResult,
    MeasurementResult,
    MultipleLossRatioSearch,
    SearchGoal,
)

from hypertare.runs.summary import RateBound, SearchState
from hypertare.search.plan import Found, Measured, Need, Search
from hypertare.study.analyses import SearchSettings

LOW_SHARE = 1e-4
"""The lowest rate, as a share of the highest, where the study names none: an emulated guest takes less
than a hundredth of what its host can send."""

MOST_FAILURES = 3
"""Trials of one rate that may fail in a row before the search is given up."""

_COUNT = 10**9
"""MLRsearch counts packets; shares of so many lose nothing that matters."""

_FOREVER_S = 1e9
"""MLRsearch has a limit of time, which would make what it finds depend on the host's speed."""


def replay(settings: SearchSettings, measured: Sequence[Measured]) -> Search:
    """Runs the search over its trials, in the order in which they were made."""
    answers = _Answers(settings, measured)
    try:
        high = settings.high or answers.capacity()
        low = settings.low or high * LOW_SHARE
        if low >= high:
            raise _Left(
                "failed",
                reason=f"its lowest rate, {low:.4g} b/s, is not below the highest, {high:.4g} b/s, "
                "which is all that the sender can send",
            )
    except _Left as at_once:
        nothing = tuple(Found(goal, at_once.state or "open") for goal in settings.loss)
        return Search(at_once.need, nothing, answers.used, reason=at_once.reason)
    search = _search(settings, low, high)
    left = _Left(None)
    try:
        search.search(answers)
    except _Left as ended:
        left = ended
    found = tuple(
        _found(search, goal, answers, settings, left.state) for goal in search.config.goals
    )
    return Search(left.need, found, answers.used, low, high, left.reason)


def _search(settings: SearchSettings, low: float, high: float) -> MultipleLossRatioSearch:
    goals = [
        SearchGoal(
            loss_ratio=loss,
            exceed_ratio=settings.exceed,
            relative_width=settings.width,
            initial_trial_duration=settings.duration,
            final_trial_duration=settings.duration,
            duration_sum=settings.sum,
            preceding_targets=2,
            expansion_coefficient=4,
            fail_fast=False,
        )
        for loss in settings.loss
    ]
    return MultipleLossRatioSearch(
        Config(
            goals=goals,
            min_load=low,
            max_load=high,
            search_duration_max=_FOREVER_S,
            warmup_duration=None,
        )
    )


# --- the trials as MLRsearch's measurer


class _Left(Exception):
    """Leaves the search where its trials end; without a `state` it ended by itself."""

    def __init__(
        self, state: SearchState | None, need: Need | None = None, reason: str | None = None
    ) -> None:
        self.state, self.need, self.reason = state, need, reason


class _Answers(AbstractMeasurer):  # type: ignore[misc]  # MLRsearch has no types
    """Gives out trials in the order in which they were made."""

    def __init__(self, settings: SearchSettings, measured: Sequence[Measured]) -> None:
        self.settings = settings
        self.measured = measured
        self.used = 0

    def capacity(self) -> float:
        """What the sender sends when nothing paces it, in b/s."""
        return self._next(None).sent

    def measure(self, intended_duration: float, intended_load: float) -> MeasurementResult:
        trial = self._next(intended_load)
        short = trial.sent < intended_load * (1 - self.settings.width / 2)
        # MLRsearch counts what was not even sent as lost, so that it looks at lower rates.
        intended = round(_COUNT * intended_load / max(trial.sent, 1.0)) if short else _COUNT
        lost = max(1, round(_COUNT * trial.loss)) if trial.loss > 0 else 0
        return MeasurementResult(
            intended_duration=intended_duration,
            intended_load=intended_load,
            offered_count=_COUNT,
            loss_count=lost,
            intended_count=intended,
        )

    def bad(self, most: float, goal: float) -> int:
        """How many trials of rates up to `most` lost more than the goal."""
        used = (trial for trial in self.measured[: self.used] if trial.error is None)
        return sum(t.loss > goal for t in used if t.rate is not None and t.rate <= most)

    def _next(self, rate: float | None) -> Measured:
        """The next trial, which must be at this rate; those that failed are made again."""
        for _ in range(MOST_FAILURES):
            if self.used >= self.settings.most_trials:
                raise _Left("limit")
            if self.used == len(self.measured):
                replicate = sum(trial.rate == rate for trial in self.measured)
                raise _Left("open", need=Need(rate, replicate))
            trial = self.measured[self.used]
            self.used += 1
            if trial.rate != rate:
                raise _Left("failed", reason="its trials do not follow from its settings")
            if trial.error is None:
                return trial
        raise _Left("failed", reason=str(trial.error))


# --- what was found


def _found(
    search: MultipleLossRatioSearch,
    goal: Any,
    answers: _Answers,
    settings: SearchSettings,
    left: SearchState | None,
) -> Found:
    target = search.scaling.goal_to_final_target[goal]
    bounds = search.database.get_relevant_bounds(target)
    lower, upper = (_bound(bound, answers) for bound in (bounds.clo, bounds.chi))
    throughput = GoalResult.from_bounds(bounds).conditional_throughput
    good = [
        float(load)
        for load, stats in search.database.load_to_stats.items()
        if stats.estimates(target) == (True, True)
    ]
    state = _state(search, lower, upper, settings, left)
    all_sent = state == "none loses" and settings.high is None
    return Found(
        goal=goal.loss_ratio,
        state=state,
        lower=lower,
        upper=upper,
        throughput=None if throughput is None else float(throughput),
        sender=all_sent or (upper is not None and upper.loss <= goal.loss_ratio),
        good_above=max((rate for rate in good if upper and rate > upper.rate), default=None),
        bad_below=answers.bad(lower.rate, goal.loss_ratio) if lower else 0,
    )


def _state(
    search: MultipleLossRatioSearch,
    lower: RateBound | None,
    upper: RateBound | None,
    settings: SearchSettings,
    left: SearchState | None,
) -> SearchState:
    """How the search of a goal ended. `left` is why the whole was left, none where it ended by itself."""
    if lower and upper:
        narrow = upper.rate - lower.rate <= upper.rate * settings.width * (1 + 1e-9)
        return "found" if narrow or left is None else left
    if upper and upper.rate <= search.config.min_load:
        return "all lose"
    if lower and lower.rate >= search.config.max_load:
        return "none loses"
    return left or "failed"


def _bound(bound: Any, answers: _Answers) -> RateBound | None:
    """A rate about which its trials decided; the loss is their median."""
    if bound is None:
        return None
    rate = float(bound)
    losses = [
        trial.loss
        for trial in answers.measured[: answers.used]
        if trial.rate == rate and trial.error is None
    ]
    return RateBound(rate=rate, loss=statistics.median(losses), trials=len(losses))
