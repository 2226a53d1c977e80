"""Which setting to try next: optuna, seeded, which learns what came back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hypertare.base.level import Level
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
        if any(not self._fits(knob, setting[knob.path]) for knob in self._knobs):
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
        return ticket, self._base | {
            knob.path: self._decoded(knob, ticket.params[knob.path]) for knob in self._knobs
        }

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
        return {
            knob.path: setting[knob.path]
            if knob.range is not None
            else _place(knob, setting[knob.path])
            for knob in self._knobs
            if self._fits(knob, setting[knob.path])
        }

    def _decoded(self, knob: Knob, value: Any) -> Level:
        level: Level = value if knob.range is not None else knob.levels[value]
        return level

    def _fits(self, knob: Knob, level: Level) -> bool:
        if knob.range is None:
            return True
        return isinstance(level, int) and knob.range.low <= level <= knob.range.high


def _place(knob: Knob, level: Level) -> int:
    return next(i for i, one in enumerate(knob.levels) if repr(one) == repr(level))
