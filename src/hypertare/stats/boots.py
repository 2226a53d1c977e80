"""Trials within one boot are alike where boots differ: the interval must know."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy import special

from hypertare.stats.interval import Interval, Values, finite, of_mean


@dataclass(frozen=True)
class Booted:
    """A mean over trials of several boots.

    `p` is the chance of boots that differ at least this much if boots do nothing; absent where it
    cannot be told: one boot, or one trial in each. `by_boot` says that the interval rests on the
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
    if between <= residual:
        return Booted(pooled, groups, _p(between, residual, groups - 1, within), False)
    by_boot = of_mean(means, confidence)
    return Booted(
        replace(by_boot, n=len(checked)),
        groups,
        _p(between, residual, groups - 1, within),
        True,
    )


def _p(between: float, residual: float, above: int, below: int) -> float:
    if residual == 0:
        return 0.0 if between > 0 else 1.0
    return float(special.fdtrc(above, below, between / residual))
