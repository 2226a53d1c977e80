"""How evenly guests share, and whether each gets what its weight says."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from hypertare.stats.interval import Interval, Values, finite, of_mean


def jain(shares: Values, weights: Values | None = None) -> float:
    """Jain's index: (Σ x)² / (n Σ x²). 1 where all get the same, k/n where k of n get all of it.

    With weights x is the share over its weight: 1 where each gets in proportion. Nobody getting
    anything is as even as can be: 1.

    Source: Jain, Chiu & Hawe (1984), DEC Research Report TR-301.

    Args:
        shares: n of any unit, none below 0.
        weights: n, all above 0.

    Raises:
        ValueError: no shares, one below 0 or not finite, or weights that do not fit.
    """
    x = _shares(shares) if weights is None else _shares(shares) / _weights(weights, len(shares))
    largest = float(x.max())
    if largest == 0:
        return 1.0
    # Scaled, so that the squares of neither large nor small shares leave the range of a float.
    x = x / largest
    return float(x.sum() ** 2 / (len(x) * np.square(x).sum()))


def of_trials(
    trials: Sequence[Values], weights: Values | None = None, confidence: float = 0.95
) -> Interval:
    """The mean of the trials' indices, with its interval within what an index can be, 1/n to 1.

    Of trials and not of mean shares: guests that starve in turns are treated unfairly in every
    trial, and alike in the mean.

    Args:
        trials: of each the shares of all guests, in the same order.
        weights: of the guests.
        confidence: of the interval.

    Raises:
        ValueError: as `jain`; no trials; or trials of different numbers of guests.
    """
    guests = {len(shares) for shares in trials}
    if len(guests) > 1:
        raise ValueError("the trials have different numbers of guests")
    interval = of_mean([jain(shares, weights) for shares in trials], confidence)
    if interval.low is None or interval.high is None:
        return interval
    least = 1 / guests.pop()
    return replace(interval, low=max(least, interval.low), high=min(1.0, interval.high))


def entitlements(shares: Values, weights: Values) -> NDArray[np.float64]:
    """What each guest got over what its weight entitles it to: 1 is its due, 0.5 is half of it.

    Raises:
        ValueError: as `jain`, or nobody got anything.
    """
    x, w = _shares(shares), _weights(weights, len(shares))
    if x.sum() == 0:
        raise ValueError("nobody got anything, so nobody has a part of it")
    return (x / x.sum()) / (w / w.sum())


def _shares(shares: Values) -> NDArray[np.float64]:
    x = finite(shares)
    if (x < 0).any():
        raise ValueError("a share is below 0")
    return x


def _weights(weights: Values, count: int) -> NDArray[np.float64]:
    w = finite(weights)
    if len(w) != count:
        raise ValueError(f"{len(w)} weights for {count} shares")
    if not (w > 0).all():
        raise ValueError("a weight is not above 0")
    return w
