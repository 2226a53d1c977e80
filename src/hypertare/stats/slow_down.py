"""How much of what it gets alone a guest gets beside others."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from hypertare.stats import boots, ratio
from hypertare.stats.interval import Interval, welch


@dataclass(frozen=True)
class Side:
    """Rates by block, all in one unit, and the boot of each block."""

    rates: Mapping[int, Sequence[float]]
    boots: Mapping[int, int]


def of_alone(alone: Side, beside: Side, confidence: float = 0.95) -> Interval | None:
    """log(rate beside others / rate alone), of means in log space; none without rates above 0.

    Where both sides stand in the same blocks what these share cancels: the mean of the differences, as
    of a cost (`hypertare.stats.ratio`). Else they are independent samples: Welch's interval, each side
    by boots where these differ.

    Source: the rate of a virtual machine beside loaded ones over that of one alone is what Anhalt &
    Vicat-Blanc Primet (2008), INRIA RR-6658, report of 2, 4 and 8; Welch (1947), Biometrika 34, 28-35.
    """
    sides = [
        {block: values for block, values in one.rates.items() if values} for one in (alone, beside)
    ]
    every = [value for side in sides for values in side.values() for value in values]
    if not all(sides) or not all(math.isfinite(value) and value > 0 for value in every):
        return None
    if sides[0].keys() == sides[1].keys():
        pairs = ratio.pair(*sides)
        assert pairs.logs is not None
        where = [beside.boots[block] for block in pairs.blocks]
        return boots.mean(pairs.logs, where, confidence).interval
    first, second = (
        _mean_log(one, side, confidence) for one, side in zip((alone, beside), sides, strict=True)
    )
    return welch(first, second, confidence)


def _mean_log(one: Side, rates: Mapping[int, Sequence[float]], confidence: float) -> Interval:
    logs = [float(log) for values in rates.values() for log in np.log(np.asarray(values))]
    where = [one.boots[block] for block, values in rates.items() for _ in values]
    return boots.mean(logs, where, confidence).interval
