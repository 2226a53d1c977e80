"""A cost from trials of the same block."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Literal

import numpy as np
from numpy.typing import NDArray

_LARGEST = 709.0
"""The largest number whose exponential fits into a float."""

Better = Literal["higher", "lower"]
ByBlock = Mapping[int, Sequence[float]]


@dataclass(frozen=True)
class Pairs:
    """The system under test against the baseline, one figure a block.

    `logs` are log(sut / baseline), absent where a value of zero or below forbids a logarithm;
    `differences` are sut - baseline in the unit of the response.
    """

    blocks: tuple[int, ...]
    logs: NDArray[np.float64] | None
    differences: NDArray[np.float64]


def pair(baseline: ByBlock, sut: ByBlock) -> Pairs:
    """Pairs what stands in the same block; an empty block was planned and gave nothing.

    Several trials of one side in a block are averaged first: in log space for the ratio, so that it
    is a ratio of geometric means, and as they are for the difference.

    Why logs: a cost is a factor, its noise is multiplicative, and the log ratio is the only one for
    which it does not matter which side is called the baseline (Fleming & Wallace 1986, "How not to
    lie with statistics", CACM 29, 218-221). Why pairs: what a block shares, such as a busy
    neighbour or a warm machine, cancels (Fisher 1935, The Design of Experiments).

    Why a difference where a value is zero or below: a loss of 0 has no logarithm, and adding a
    small constant would let the constant decide the cost. Leaving those blocks out would keep only
    the blocks that lost. So that comparison has no cost; its difference is given in its place.

    A ratio's two sides have the same distribution when virtualisation does nothing. The log ratio
    is then symmetric around 0 however skewed the noise is, and the t interval
    (`hypertare.stats.interval`) keeps its coverage.
    """
    blocks = tuple(
        block
        for block in sorted(baseline.keys() & sut.keys())
        if len(baseline[block]) and len(sut[block])
    )
    (below, logs_below), (above, logs_above) = (
        _means([side[block] for block in blocks]) for side in (baseline, sut)
    )
    logs = None if logs_below is None or logs_above is None else logs_above - logs_below
    return Pairs(blocks, logs, above - below)


def _means(
    blocks: Sequence[Sequence[float]],
) -> tuple[NDArray[np.float64], NDArray[np.float64] | None]:
    """The mean of each block, and that of the logs where all values have one."""
    # All blocks at once: in a run of hundreds of cells this is most of a report's time.
    values = np.array(list(chain.from_iterable(blocks)), dtype=np.float64)
    sizes = np.array([len(block) for block in blocks], dtype=np.intp)
    where = np.repeat(np.arange(len(blocks)), sizes)
    logs = np.bincount(where, np.log(values)) / sizes if (values > 0).all() else None
    return np.bincount(where, values) / sizes, logs


def of_block(baseline: float, sut: float) -> tuple[float | None, float]:
    """What `pair` makes of a block with one value a side: its log, where it has one, and its difference."""
    if baseline > 0 and sut > 0:
        return float(np.log(sut) - np.log(baseline)), sut - baseline
    return None, sut - baseline


def cost(log_ratio: float, better: Better) -> float:
    """The share of the baseline that is lost: positive is a loss.

    1 - ratio where higher is better, ratio - 1 where lower is.
    """
    # With one degree of freedom an end may lie beyond all numbers.
    change = math.expm1(log_ratio) if log_ratio < _LARGEST else math.inf
    return change if better == "lower" else -change


def of_cost(cost: float, better: Better) -> float:
    """Platform over baseline, of what `cost` makes of it."""
    return 1 + cost if better == "lower" else 1 - cost


def cost_bounds(low: float, high: float, better: Better) -> tuple[float, float]:
    """The costs at the ends of an interval of log ratios, the lower one first."""
    ends = cost(low, better), cost(high, better)
    return min(ends), max(ends)
