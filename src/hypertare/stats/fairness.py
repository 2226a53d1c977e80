"""How evenly guests share, and whether each gets what its weight says.

Every trial of several guests needs this, and not the libraries for arrays, which take a second to load.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

Values = Sequence[float]


def jain(shares: Values, weights: Values | None = None) -> float:
    """Jain's index: (Σ x)² / (n Σ x²). 1 where all get the same, k/n where k of n get all of it.

    With weights x is the share over its weight: 1 where each gets in proportion. Nobody getting
    anything is as even as can be: 1.

    Of several trials take the mean of their indices, not the index of mean shares: guests that starve
    in turns are treated unfairly in every trial, and alike in the mean.

    Source: Jain, Chiu & Hawe (1984), DEC Research Report TR-301.

    Args:
        shares: n of any unit, none below 0.
        weights: n, all above 0.

    Raises:
        ValueError: no shares, one below 0 or not finite, or weights that do not fit.
    """
    _check_shares(shares)
    x = list(shares)
    if weights is not None:
        _check_weights(weights, len(x))
        x = [share / weight for share, weight in zip(x, weights, strict=True)]
    largest = max(x)
    if largest == 0:
        return 1.0
    # Scaled, so that the squares of neither large nor small shares leave the range of a float.
    x = [share / largest for share in x]
    return math.fsum(x) ** 2 / (len(x) * math.fsum(share * share for share in x))


def least(count: int) -> float:
    """The least that Jain's index of so many shares can be: one gets everything."""
    return 1 / count


def entitlements(shares: Values, weights: Values) -> list[float]:
    """What each guest got over what its weight entitles it to: 1 is its due, 0.5 is half of it.

    Raises:
        ValueError: as `jain`, or nobody got anything.
    """
    _check_shares(shares)
    _check_weights(weights, len(shares))
    got, due = math.fsum(shares), math.fsum(weights)
    if got == 0:
        raise ValueError("nobody got anything, so nobody has a part of it")
    return [(share / got) / (weight / due) for share, weight in zip(shares, weights, strict=True)]


def _check_shares(shares: Values) -> None:
    if not shares:
        raise ValueError("no shares")
    if not all(math.isfinite(share) and share >= 0 for share in shares):
        raise ValueError("a share is below 0 or not finite")


def _check_weights(weights: Values, count: int) -> None:
    if len(weights) != count:
        raise ValueError(f"{len(weights)} weights for {count} shares")
    if not all(math.isfinite(weight) and weight > 0 for weight in weights):
        raise ValueError("a weight is not above 0")
