"""Which setting to try next, and which of those that were tried nothing beats."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hypertare.tune.space import Knob, Setting

STARTS = 6
"""Settings drawn at random before the sampler's model decides."""


class Optimiser:
    """Asks for settings of some knobs; the others stay as in `base`.

    The sampler is the tree-structured Parzen estimator, which takes noise, categories and several
    objectives. The same seed and the same answers give the same questions.

    Source: Bergstra, Bardenet, Bengio & Kégl (2011), Algorithms for hyper-parameter optimization,
    NIPS 24; several objectives: Ozaki et al. (2022), JAIR 73, 1209-1250.
    """

    def __init__(self, knobs: Sequence[Knob], base: Setting, objectives: int, seed: int) -> None:
        import optuna

        optuna.logging.set_verbosity(optuna.logging.ERROR)
        self._optuna = optuna
        self._knobs = list(knobs)
        self._base = base
        self._objectives = objectives
        self._distributions = {knob.path: self._distribution(knob) for knob in knobs}
        self._study = optuna.create_study(
            directions=["maximize"] * objectives,
            sampler=optuna.samplers.TPESampler(seed=seed, n_startup_trials=STARTS),
        )

    def suggest_first(self, setting: Setting) -> None:
        """Makes a setting the next one that `ask` returns."""
        self._study.enqueue_trial(self._encoded(setting))

    def learn(self, setting: Setting, gains: Sequence[float]) -> None:
        """Adds the known gains of a setting to the sampler's data, unless the setting is outside of the
        space.
        """
        if not all(knob.has(setting[knob.path]) for knob in self._knobs):
            return
        trial = self._optuna.trial.create_trial(
            params=self._encoded(setting),
            distributions=self._distributions,
            values=list(gains)[: self._objectives],
        )
        self._study.add_trial(trial)

    def ask(self) -> tuple[Any, Setting]:
        """A ticket under which its result is learned, and the setting."""
        ticket = self._study.ask(self._distributions)
        chosen = {
            knob.path: level if knob.range is not None else knob.levels[level]
            for knob in self._knobs
            for level in [ticket.params[knob.path]]
        }
        return ticket, self._base | chosen

    def learn_of(self, ticket: Any, gains: Sequence[float] | None) -> None:
        """Gives the sampler the gains of an asked setting; None for a setting that failed."""
        if gains is None:
            self._study.tell(ticket, state=self._optuna.trial.TrialState.FAIL)
        else:
            self._study.tell(ticket, list(gains)[: self._objectives])

    def _distribution(self, knob: Knob) -> Any:
        kinds = self._optuna.distributions
        if knob.range is not None:
            return kinds.IntDistribution(knob.range.low, knob.range.high, log=knob.range.log)
        if knob.ordered:
            # By place, so that the sampler knows what is next to what.
            return kinds.IntDistribution(0, len(knob.levels) - 1)
        return kinds.CategoricalDistribution(list(range(len(knob.levels))))

    def _encoded(self, setting: Setting) -> dict[str, Any]:
        """Levels as the sampler has them: numbers of a range, else places in the list."""
        levels = {knob: setting[knob.path] for knob in self._knobs}
        return {
            knob.path: level
            if knob.range is not None
            else [*map(repr, knob.levels)].index(repr(level))
            for knob, level in levels.items()
            if knob.has(level)
        }


Point = tuple[float, float]
"""Gains in log ratio to the default: throughput and CPU, the more the better."""


def pareto_front(points: Sequence[Point]) -> list[int]:
    """Places of the points that no other is at least as good as in both, and better in one.

    In order of rising first gain.
    """
    kept = [
        place
        for place, one in enumerate(points)
        if not any(_dominates(other, one) for other in points) and points.index(one) == place
    ]
    return sorted(kept, key=lambda place: points[place])


def pareto_knee(points: Sequence[Point]) -> int:
    """The place of the best compromise on the front.

    Both gains are scaled to 0..1 over the front. The knee is the point of the front that lies
    farthest beyond the straight line between the front's two ends: to go on from there in either
    direction costs more of the one gain than it brings of the other. Where none lies beyond it (two
    points, or a front that is hollow) it is the point with the greatest sum of gains.

    Sources: Das (1999), On characterizing the "knee" of the Pareto curve based on normal-boundary
    intersection, Structural Optimization 18, 107-115; Branke, Deb, Dierolf & Osswald (2004),
    Finding knees in multi-objective optimization, PPSN VIII.

    Raises:
        ValueError: there are no points.
    """
    if not points:
        raise ValueError("no points")
    places = pareto_front(points)
    first, last = points[places[0]], points[places[-1]]
    wide, high = last[0] - first[0], first[1] - last[1]

    def beyond(place: int) -> float:
        if wide <= 0 or high <= 0:
            return 0.0
        x, y = (points[place][0] - first[0]) / wide, (points[place][1] - last[1]) / high
        return x + y - 1  # the distance to the line from (0, 1) to (1, 0), times the root of 2

    best = max(places, key=lambda place: (beyond(place), sum(points[place])))
    return best if beyond(best) > 0 else max(places, key=lambda place: sum(points[place]))


def _dominates(one: Point, other: Point) -> bool:
    return one[0] >= other[0] and one[1] >= other[1] and one != other
