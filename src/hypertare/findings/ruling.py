"""From a comparison to its verdict, whatever was compared. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypedDict

from hypertare.base.response import Response
from hypertare.runs.summary import Clock
from hypertare.stats import noise, practical, ratio
from hypertare.stats.boots import Booted
from hypertare.stats.interval import Interval, at
from hypertare.stats.practical import Reason, Ruling, Verdict


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
    mean = at(comparison.mean.interval, level)
    low, high = ends_of(mean, rules.clock == "virtual")
    if comparison.scale == "log":
        cost = ratio.cost(mean.estimate, response.better)
        ends: tuple[float | None, float | None] = (None, None)
        if low is not None and high is not None:
            ends = ratio.cost_bounds(low, high, response.better)
        gate = floor.least if floor and floor.pairs == "same block" else 0.0
        ruling = _ruling(comparison, cost, ends, gate, rules)
        return {
            "cost": cost,
            "cost_low": ends[0],
            "cost_high": ends[1],
            "cost_confidence": level,
            "verdict": ruling.verdict,
            "reason": ruling.reason,
        }
    ruling = _difference_ruling(comparison, response, low, high, rules)
    return {
        "difference": mean.estimate,
        "difference_low": low,
        "difference_high": high,
        "cost_confidence": level,
        "verdict": ruling.verdict,
        "reason": ruling.reason,
    }


def _difference_ruling(
    comparison: Comparison,
    response: Response,
    low: float | None,
    high: float | None,
    rules: Rules,
) -> Ruling:
    """A difference matters as a share of the largest value seen on either side."""
    size = comparison.size or 1.0
    sign = (1 if response.better == "lower" else -1) / size
    ends: tuple[float | None, float | None] = (None, None)
    if low is not None and high is not None:
        ends = (min(sign * low, sign * high), max(sign * low, sign * high))
    return _ruling(comparison, sign * comparison.mean.interval.estimate, ends, 0.0, rules)


def _ruling(
    comparison: Comparison,
    loss: float,
    ends: tuple[float | None, float | None],
    gate: float,
    rules: Rules,
) -> Ruling:
    interval = comparison.mean.interval
    sure = interval.constant and (
        rules.clock == "virtual" or practical.unanimous(interval.n, rules.confidence)
    )
    return practical.rule(loss, ends[0], ends[1], threshold=rules.threshold, floor=gate, sure=sure)


def ends_of(interval: Interval, virtual: bool) -> tuple[float | None, float | None]:
    """The interval; in virtual time what never varies is its own."""
    if interval.constant and virtual:
        return interval.estimate, interval.estimate
    return interval.low, interval.high
