"""Searches side by side, and what they found.

Each round asks for the next trial of every search that is not at its end. A search never sees another's
trials, so what it finds does not depend on which others run beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Protocol

from hypertare.base.variables import Cell
from hypertare.design.trials import Ask, FinishedTrial, Kind
from hypertare.runs.summary import LossFreeRate
from hypertare.search.plan import Measured, Need, Search, SearchPlan, Setting, plan
from hypertare.study import StudyFile
from hypertare.workloads.responses import mark_of

RATE = "search.rate"
UNPACED = "search.unpaced"


class Lab(Protocol):
    """The measurer: `hypertare.engine.trial_runner`, or a substitute in a test."""

    left_s: Callable[[], float]
    clock: Callable[[], float]

    def block(self, asks: Sequence[Ask], kind: Kind = "measured") -> list[FinishedTrial]: ...


class Rounds:
    """Carries the searches of one platform out; `known` are trials of an earlier part of the run."""

    def __init__(self, plan: SearchPlan, platform: str, known: Iterable[FinishedTrial]) -> None:
        self.plan = plan
        self.places = [place for place in plan.places if place.platform == platform]
        self._known = of_settings(plan, known)
        self._searches = [self._replay(place) for place in self.places]

    def run(self, lab: Lab) -> None:
        """Works until every search is at its end."""
        self._watch(lab)
        while needs := self._needs():
            asks = [self._ask(place, need) for place, need in needs]
            for (place, _), trial in zip(needs, lab.block(asks, "search"), strict=True):
                self._known[key(place)].append(trial)
                self._searches[self.places.index(place)] = self._replay(place)

    def _watch(self, lab: Lab) -> None:
        """Says to the trial runner how long this goes on, at most."""
        began, before = lab.clock(), self.trials_left

        def left_s() -> float:
            done = before - self.trials_left
            took = lab.clock() - began
            return self.trials_left * (took / done if done > 0 else self.plan.settings.duration)

        lab.left_s = left_s

    @property
    def trials_left(self) -> int:
        """The most trials that the open searches may still need."""
        most = self.plan.settings.most_trials
        return sum(most - one.trials for one in self._searches if one.need is not None)

    def _needs(self) -> list[tuple[Setting, Need]]:
        pairs = zip(self.places, self._searches, strict=True)
        return [(place, one.need) for place, one in pairs if one.need is not None]

    def _ask(self, place: Setting, need: Need) -> Ask:
        named: Cell = {UNPACED: True} if need.rate is None else {RATE: need.rate}
        levels = self.plan.levels(place, need.rate)
        return Ask(levels, {**place.levels, **named}, need.replicate)

    def _replay(self, place: Setting) -> Search:
        # MLRsearch takes a third of a second to load, which a run without searches is not to pay.
        from hypertare.search.replay import replay

        trials = self._known[key(place)]
        return replay(self.plan.settings, [measured(trial) for trial in trials])


Key = tuple[str, tuple[tuple[str, str], ...]]


def key(place: Setting) -> Key:
    return place.platform, tuple(sorted((path, repr(v)) for path, v in place.levels.items()))


def of_settings(
    plan: SearchPlan, trials: Iterable[FinishedTrial]
) -> dict[Key, list[FinishedTrial]]:
    """The trials of each search, in the order in which they were made."""
    found: dict[Key, list[FinishedTrial]] = {key(place): [] for place in plan.places}
    for trial in trials:
        planned = trial.planned
        if planned.kind == "search":
            ours = ("workload", RATE, UNPACED)
            levels = {path: v for path, v in planned.cell.items() if path not in ours}
            found[key(Setting(planned.platform, levels))].append(trial)
    return found


def measured(trial: FinishedTrial) -> Measured:
    """A trial as the search sees it. One whose loss could not be counted has failed."""
    rate = trial.planned.cell.get(RATE)
    asked = None if rate is None else float(rate)
    sent, loss = (trial.values.get(name) for name in ("sent_rate", "loss"))
    if trial.status == "failed":
        return Measured(asked, error=trial.error or "no reason given")
    if not sent or loss is None:
        return Measured(asked, error="nothing was sent, or what was lost is not known")
    return Measured(asked, sent, loss)


def loss_free(file: StudyFile, trials: Iterable[FinishedTrial]) -> Iterator[LossFreeRate]:
    """The loss-free rates of every setting whose search has begun, in the study's order.

    Raises:
        InputError: the study's searches are damaged.
    """
    study = file.study()
    wanted = plan(file, study)
    if wanted is None:
        return
    # MLRsearch takes a third of a second to load, which a run without searches is not to pay.
    from hypertare.search.replay import replay

    unit = f"b/s{mark_of(study.clock)}"
    known = of_settings(wanted, trials)
    for place in wanted.places:
        made = known[key(place)]
        if made:
            search = replay(wanted.settings, [measured(trial) for trial in made])
            for found in search.found:
                yield LossFreeRate(
                    platform=place.platform,
                    cell={"workload": wanted.settings.workload, **place.levels},
                    unit=unit,
                    lowest=search.low,
                    highest=search.high,
                    trials=search.trials,
                    reason=search.reason,
                    **vars(found),
                )
