"""Which setting to try next: optuna, seeded, which learns what came back."""

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
