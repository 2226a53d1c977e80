"""When enough trials were taken."""

from __future__ import annotations

import math
from collections.abc import Hashable
from enum import Enum
from typing import Literal

from hypertare.stats.boots import Running
from hypertare.stats.noise import Spread

CONFIRMING = 3
"""Further blocks that a first precise look has to be confirmed by."""

AT_ONCE = 0.5
"""Share of the precision below which an interval needs no confirming."""


class Decision(Enum):
    CONTINUE = "continue"
    PRECISE = "precise"
    LIMIT = "limit"


class StopRule:
    """Whether to take another block, block by block, each in constant time.

    `precision` is the half-width of the interval on the cost that suffices, as a share (0.02) of
    the larger of the two sides: of the baseline where the ratio is below 1, of the system under
    test above, so that a guest ten times slower is weighed as finely as one a tenth slower.

    Looking after every block and stopping at the first narrow interval picks the runs whose spread
    came out small by luck: of such 95 % intervals, 92 % hold the truth (90 % from three trials on).
    So a first narrow interval is confirmed by three further blocks and must still be narrow, unless
    it is narrower than half the precision. Then 93 to 97 % hold it, from five trials on
    (`docs/method.md`), for two to four blocks more than the naive rule.

    Sources: Chow & Robbins (1965), On the asymptotic theory of fixed-width sequential confidence
    intervals, Ann. Math. Statist. 36, 457-462 (the rule, right in the limit); Nádas (1969), ibid.
    40, 667-671 (relative precision); Simons (1968), ibid. 39, 1946-1952 (finitely many further
    observations make good what stopping takes).

    Boots that differ widen the interval (`hypertare.stats.boots`); nothing ends before `min_boots`
    of them were seen. Boots are few values to stop by. If they differ, then with three boots at
    least 89 to 97 % hold the truth for four blocks a boot, 91 to 96 % for two; from the first boot
    on, 82 to 96 % for four.

    `of_cost` is a precision relative to the cost itself: with 0.2, one known to within a fifth of itself
    is precise enough, whatever `precision` says. A guest 25 times as slow need not be weighed to 2 %.
    With 0.2, too, 93 to 97 % hold the truth, for costs from none to 25 times (`tests/stats`).

    `of_noise` is a precision relative to the noise floor, how much the baseline differs from one trial to
    the next (`hypertare.stats.noise.spread`): with 1, a cost known to within that is precise enough. It
    spares a noisy machine the blocks that would only average its noise away: some ten are enough where
    both sides are alike. With 1, too, 93 to 97 % hold the truth.

    Where a value of zero or below forbids ratios, the blocks' differences are what is weighed, as a
    share of the largest value seen (`scale` is "difference"), as in the estimates.
    """

    def __init__(
        self,
        *,
        precision: float,
        min_trials: int,
        max_trials: int,
        min_boots: int = 1,
        confidence: float = 0.95,
        scale: Literal["log", "difference"] = "log",
        of_cost: float = 0.0,
        of_noise: float = 0.0,
    ) -> None:
        self.precision = precision
        self.of_cost = of_cost
        self.of_noise = of_noise
        self.min_trials = min_trials
        self.max_trials = max_trials
        self.min_boots = min_boots
        self.scale = scale
        self._running = Running(confidence)
        self._spread = Spread()
        self._largest = 0.0
        self._width = math.inf
        self._wanted = precision
        self._first_narrow: int | None = None
        """Number of blocks at the first look that was narrow."""

    def add(
        self,
        value: float,
        boot: Hashable = 0,
        largest: float = 0.0,
        baseline: float | None = None,
    ) -> None:
        """One block's log ratio, or its difference with the larger of its two sides; and, on the same
        scale, the baseline by itself.
        """
        self._running.add(value, boot)
        if baseline is not None:
            self._spread.add(baseline)
        self._largest = max(self._largest, abs(largest))
        self._width = self._half_width()
        if math.isinf(self._width):
            # Whatever suffices: most of a long run's blocks come before the least number of them.
            return
        self._wanted = self._sufficient()
        if self._first_narrow is None and self._is_narrow():
            self._first_narrow = self._running.count

    def decide(self) -> Decision:
        count, first = self._running.count, self._first_narrow
        is_confirmed = first is not None and count - first >= CONFIRMING
        if self._is_narrow() and (is_confirmed or self._width <= AT_ONCE * self._wanted):
            return Decision.PRECISE
        if count < self.max_trials:
            return Decision.CONTINUE
        return Decision.PRECISE if self._is_narrow() else Decision.LIMIT

    def _half_width(self) -> float:
        if self._running.count < self.min_trials or self._running.boots < self.min_boots:
            return math.inf
        mean, half = self._running.mean()
        if self.scale == "difference":
            return half / self._largest if self._largest else half
        return _on_cost(mean, half)

    def _sufficient(self) -> float:
        """The half-width that suffices, as a share of the larger side."""
        if not self._running.count or not (self.of_cost or self.of_noise):
            return self.precision
        mean, _ = self._running.mean()
        spread = self.of_noise * self._spread.value
        if self.scale == "difference":
            largest = self._largest or math.inf
            return max(self.precision, self.of_cost * abs(mean) / largest, spread / largest)
        cost = -math.expm1(-abs(mean))
        noise = _on_cost(mean, spread)
        return max(self.precision, self.of_cost * cost, noise)

    def _is_narrow(self) -> bool:
        return self._width <= self._wanted


def _on_cost(mean: float, half: float) -> float:
    # The ratio is e^mean, its interval's half-width ratio * sinh(half); sinh overflows above 710.
    return math.sinh(min(half, 700.0)) * math.exp(min(mean, 0.0))
