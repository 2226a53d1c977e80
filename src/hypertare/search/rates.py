"""Loss-free rates as claims and comparisons take them: a figure and where it surely lies. Pure.

A search bounds a decision by two rates, which is no confidence interval: nothing says how likely it is
that the truth lies near an end. So rates are joined by the arithmetic of intervals, from the worst case
to the worst case, and never in squares (Moore 1966, Interval Analysis).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from hypertare.base.variables import Level, same
from hypertare.runs.summary import Estimate, LossFreeRate
from hypertare.study.analyses import GOAL, LOSS_FREE_RATE


@dataclass(frozen=True)
class Span:
    """The rate that was kept, at least `low` and below `high`; infinite where no rate was too high."""

    rate: float
    low: float
    high: float


def span(one: LossFreeRate) -> Span | None:
    """Where a loss-free rate lies; none where the search says nothing.

    Where the sender was the limit nobody knows how much more would have been taken.
    """
    if one.lower is None and one.upper is None:
        return None
    low = one.lower.rate if one.lower else 0.0
    high = one.upper.rate if one.upper and not one.sender else math.inf
    return Span(low, low, high)


def quotient(one: Span, other: Span) -> Span | None:
    """one / other; none where the other may be nothing at all."""
    if not other.low > 0:
        return None
    return Span(one.rate / other.rate, one.low / other.high, one.high / other.low)


def difference(one: Span, other: Span) -> Span:
    """one - other."""
    return Span(one.rate - other.rate, one.low - other.high, one.high - other.low)


def cell(one: LossFreeRate) -> dict[str, Level]:
    return {**one.cell, GOAL: one.goal}


def estimates(found: Sequence[LossFreeRate], baseline: str) -> Iterator[Estimate]:
    """What searches found, for claims: `low` and `high` are the two rates."""
    for one in found:
        lies = span(one)
        if lies is None:
            continue
        ratio = _against_baseline(one, lies, found, baseline)
        cost = Span(1 - ratio.rate, 1 - ratio.high, 1 - ratio.low) if ratio else None
        yield Estimate(
            response=LOSS_FREE_RATE,
            unit=one.unit,
            better="higher",
            cell=cell(one),
            platform=one.platform,
            baseline=baseline if cost else None,
            n=one.trials,
            estimate=lies.rate,
            low=lies.low,
            high=lies.high,
            cost=cost.rate if cost else None,
            cost_low=cost.low if cost else None,
            cost_high=cost.high if cost else None,
        )


def _against_baseline(
    one: LossFreeRate, lies: Span, every: Iterable[LossFreeRate], baseline: str
) -> Span | None:
    """Over the baseline's rate of the same goal, with the levels that both have."""
    if one.platform == baseline:
        return None
    others = [
        other
        for other in every
        if (other.platform, other.goal) == (baseline, one.goal)
        and all(same(other.cell[f], one.cell[f]) for f in other.cell.keys() & one.cell.keys())
    ]
    its = span(others[0]) if len(others) == 1 else None
    return quotient(lies, its) if its else None
