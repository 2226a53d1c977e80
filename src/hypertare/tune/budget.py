"""How much a tuning may spend, in trials or in time."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from hypertare.base.errors import InputError
from hypertare.base.units import human_duration, parse_duration


@dataclass(frozen=True)
class Budget:
    """Either `trials` or `seconds`. A budget in trials makes a tuning that can be repeated."""

    trials: int | None = None
    seconds: float | None = None

    @classmethod
    def parse(cls, given: int | str) -> Budget:
        """From `160` (trials), or `10m` (time).

        Raises:
            InputError: it is neither.
        """
        if str(given).strip().isdecimal():
            return cls(trials=int(given))
        try:
            seconds = parse_duration(given)
        except ValueError:
            seconds = 0.0
        if seconds <= 0:
            raise InputError(
                f"'{given}' is no budget; write a number of trials as 160, or a time as 10m"
            )
        return cls(seconds=seconds)

    def expected_trials(self, trial_s: float) -> int:
        """How many trials it is likely to pay for."""
        return self.trials if self.trials is not None else int((self.seconds or 0.0) / trial_s)

    def __str__(self) -> str:
        return f"{self.trials} trials" if self.trials else human_duration(self.seconds or 0.0)


@dataclass
class BudgetTracker:
    """What is left of a budget."""

    budget: Budget
    trials: Callable[[], int]
    clock: Callable[[], float] = time.monotonic

    def __post_init__(self) -> None:
        self._began = self.clock()

    def expected_trials(self, trial_s: float) -> int:
        """How many trials it pays for in all; `trial_s` is what one takes, before any was seen."""
        done = self.trials()
        seen_s = (self.clock() - self._began) / done if done else 0.0
        return self.budget.expected_trials(max(trial_s, seen_s))

    def spent(self, more: int = 0) -> float:
        """The share that is spent, with this many trials more."""
        if self.budget.trials is not None:
            return (self.trials() + more) / self.budget.trials
        elapsed = self.clock() - self._began
        done = self.trials()
        ahead = more * elapsed / done if done else 0.0
        return (elapsed + ahead) / (self.budget.seconds or 1.0)

    def left_s(self) -> float:
        """Seconds that the rest will take, as far as is known."""
        elapsed, spent = self.clock() - self._began, self.spent()
        return max(0.0, elapsed / spent - elapsed) if spent else 0.0
