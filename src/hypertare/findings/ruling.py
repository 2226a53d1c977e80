"""From a comparison to its verdict, whatever was compared. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypedDict

from hypertare.base.response import Response
from hypertare.runs.summary import Clock, Estimate
from hypertare.stats import noise, practical, ratio
from hypertare.stats.boots import Booted
from hypertare.stats.interval import Interval, at
from hypertare.stats.practical import Reason, Verdict


@dataclass(frozen=True)
class Rules:
    """How a run is judged: see `hypertare.findings.estimates.estimate`."""

    baseline: str
    confidence: float
    threshold: float
    clock: Clock


@dataclass(frozen=True)
class Comparison:
    """A response of one platform against the baseline: in logs, or as a difference."""

    scale: Literal["log", "difference"]
    mean: Booted
    blocks: int
    size: float
    """What the difference is measured against for its practical size, in the response's unit."""
    difference: Interval | None = None
    """That of the means, beside a ratio. A part that both sides have in common, such as the CPU time of
    peers on the same CPUs, dilutes a ratio and cancels in a difference.
    """


class Compared(TypedDict, total=False):
    """The fields of an estimate that compare."""

    cost: float
    cost_low: float | None
    cost_high: float | None
    difference: float
    difference_low: float | None
    difference_high: float | None
    cost_confidence: float
    verdict: Verdict
    reason: Reason | None


def judged(
    comparison: Comparison,
    response: Response,
    floor: noise.Floor | None,
    rules: Rules,
    level: float | None = None,
) -> Compared:
    """The verdict on a comparison and the interval that it rests on.

    Args:
        level: the interval's confidence: among other comparisons it is higher than by itself
            (`hypertare.stats.comparisons.levels`).
    """
    level = rules.confidence if level is None else level
    virtual, is_log = rules.clock == "virtual", comparison.scale == "log"
    interval = comparison.mean.interval
    # A difference matters as a share of the largest value seen on either side.
    share = (1 if response.better == "lower" else -1) / (comparison.size or 1.0)

    def loss(end: float) -> float:
        return ratio.cost(end, response.better) if is_log else share * end

    low, high = ends_of(at(interval, level), virtual)
    losses = (None, None) if low is None or high is None else sorted((loss(low), loss(high)))
    ruling = practical.rule(
        loss(interval.estimate),
        *losses,
        threshold=rules.threshold,
        floor=floor.least if is_log and floor and floor.pairs == "same block" else 0.0,
        sure=interval.constant and (virtual or practical.unanimous(interval.n, rules.confidence)),
    )
    found: Compared = {
        "cost_confidence": level,
        "verdict": ruling.verdict,
        "reason": ruling.reason,
    }
    if is_log:
        found["cost"], (found["cost_low"], found["cost_high"]) = loss(interval.estimate), losses
    difference = comparison.difference if is_log else interval
    if difference is not None:
        found["difference"] = difference.estimate
        found["difference_low"], found["difference_high"] = ends_of(at(difference, level), virtual)
    return found


def ratio_of(one: Estimate) -> tuple[float, float | None, float | None] | None:
    """Platform over baseline with the ends of its interval; None where there is no cost."""
    if one.cost is None:
        return None
    ends = [
        None if end is None else ratio.of_cost(end, one.better)
        for end in (one.cost_low, one.cost_high)
    ]
    low, high = ends if one.better == "lower" else reversed(ends)
    return ratio.of_cost(one.cost, one.better), low, high


def ends_of(interval: Interval, virtual: bool) -> tuple[float | None, float | None]:
    """The interval; in virtual time what never varies is its own."""
    if interval.constant and virtual:
        return interval.estimate, interval.estimate
    return interval.low, interval.high
