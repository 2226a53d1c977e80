"""Trials within one boot are alike where boots differ: the interval must know."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from hypertare.stats.interval import Interval, Values, f_tail, finite, of_mean, t_quantile


@dataclass(frozen=True)
class Booted:
    """A mean over trials of several boots.

    `p` is the chance of boots that differ at least this much if boots do nothing; absent where it
    cannot be estimated: one boot, or one trial in each. `by_boot` says that the interval rests on the
    means of the boots.
    """

    interval: Interval
    boots: int
    p: float | None
    by_boot: bool


def mean(values: Values, boots: Sequence[Hashable], confidence: float = 0.95) -> Booted:
    """The mean and its t interval, made from boot means where boots seem to differ.

    One-way random effects: x = mean + boot + trial. The analysis of variance estimates the variance
    between boots by (MSB - MSW) / r, which is positive exactly where F = MSB/MSW > 1. Where it is,
    the boot means are the independent values: t with boots - 1 degrees of freedom, every boot with
    the same weight. Where it is not, the estimate is 0 and the trials are pooled.

    Waiting for a significant F before leaving the pool would be too late: with four boots of five
    trials and boots that vary half as much as trials, pooling unless p < 0.05 covers 89 %, unless
    F > 1 it covers 95 %. With three boots the least coverage is 93 %. With two that differ it is
    88 to 91 %: one degree of freedom, and a test that sees little. Take three at least
    (`docs/method.md`).

    Sources: Searle, Casella & McCulloch (1992), Variance Components; on preliminary tests
    for pooling, Bancroft (1964), Biometrics 20, 427-442; on boots as a level of their own,
    Kalibera & Jones (2013), Rigorous Benchmarking in Reasonable Time, ISMM.

    Raises:
        ValueError: as `interval.of_mean`, or not one boot a value.
    """
    checked = finite(values)
    if len(boots) != len(checked):
        raise ValueError(f"{len(checked)} values of {len(boots)} boots")
    pooled = of_mean(checked, confidence)
    numbers = {boot: number for number, boot in enumerate(dict.fromkeys(boots))}
    groups = len(numbers)
    within = len(checked) - groups
    if groups < 2 or within < 1 or pooled.constant:
        return Booted(pooled, groups, None, False)

    where = np.array([numbers[boot] for boot in boots])
    sizes = np.bincount(where)
    means = np.bincount(where, weights=checked) / sizes
    between_squares = float((sizes * (means - checked.mean()) ** 2).sum())
    within_squares = float(((checked - means[where]) ** 2).sum())
    between = between_squares / (groups - 1)
    residual = within_squares / within
    p = f_tail(groups - 1, within, between / residual) if residual else float(between == 0)
    if between <= residual:
        return Booted(pooled, groups, p, False)
    return Booted(replace(of_mean(means, confidence), n=len(checked)), groups, p, True)


class Running:
    """The `mean`, with its interval, of values that are added one by one in constant time each."""

    def __init__(self, confidence: float = 0.95) -> None:
        self.count = 0
        self._share = (1 + confidence) / 2
        self._first = 0.0
        self._constant = True
        # Everything from here on is of what lies above the first value: squares would cancel.
        self._sum = self._squares = 0.0
        self._boots: dict[Hashable, tuple[int, float]] = {}
        self._means = self._mean_squares = self._between = 0.0
        """Over the boots: of their means, of the squares of these, and of these times their sizes."""

    @property
    def boots(self) -> int:
        return len(self._boots)

    def add(self, value: float, boot: Hashable) -> None:
        if not self.count:
            self._first = value
        self._constant = self._constant and value == self._first
        above = value - self._first
        self.count += 1
        self._sum += above
        self._squares += above**2
        size, total = self._boots.get(boot, (0, 0.0))
        self._weigh(size, total, -1)
        self._weigh(size + 1, total + above, 1)
        self._boots[boot] = size + 1, total + above

    def _weigh(self, size: int, total: float, sign: int) -> None:
        if size:
            mean = total / size
            self._means += sign * mean
            self._mean_squares += sign * mean**2
            self._between += sign * size * mean**2

    def mean(self) -> tuple[float, float]:
        """The mean, and the half-width of its interval: infinite of one value, 0 of equal ones."""
        if self.count < 2:
            return self._first, math.inf
        if self._constant:
            return self._first, 0.0
        n, total, squares = self.count, self._sum, self._squares
        above, below = self.boots - 1, self.count - self.boots
        if above > 0 and below > 0:
            between = self._between - self._sum**2 / self.count
            within = self._squares - self._between
            if between / above > within / below:
                n, total, squares = self.boots, self._means, self._mean_squares
        error = math.sqrt(max(0.0, squares - total**2 / n) / (n - 1) / n)
        return self._first + total / n, t_quantile(n - 1, self._share) * error
