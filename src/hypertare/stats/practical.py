"""From a cost to a verdict: sure enough, and large enough to matter. Needs no library."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Verdict = Literal["costs", "gains", "no difference shown", "undecided"]
Reason = Literal["chance", "size", "floor", "few", "wide"]
"""Why neither costs nor gains: the interval holds 0; the difference is too small to matter; the baseline
differed as much from itself. Why it is undecided: too few trials for an interval; the interval holds 0
and large differences too."""


THRESHOLD = 0.01
"""The least cost that matters where nobody said otherwise: 1 %."""

NO_DIFFERENCE: Verdict = "no difference shown"

LARGE = 0.25
"""A cost or gain that nobody would call none. An interval that holds 0 and this decides nothing; ours."""


@dataclass(frozen=True)
class Ruling:
    """A verdict; `reason` is why it is neither costs nor gains, else none."""

    verdict: Verdict
    reason: Reason | None = None


def rule(
    cost: float,
    low: float | None,
    high: float | None,
    *,
    threshold: float = THRESHOLD,
    floor: float = 0.0,
    sure: bool = False,
) -> Ruling:
    """Says "costs" or "gains" where three things hold.

    1. The interval excludes 0 (significance), or `sure`: the cost came out the same, without any
       spread, often enough (`unanimous`) or in virtual time. Among many comparisons the interval is
       wider, so that this holds for all of them together (`hypertare.stats.comparisons.levels`).
    2. The cost lies beyond `threshold` (practical size). With enough trials every difference
       becomes significant; a reader asks for those that matter.
    3. The cost lies beyond `floor`: what the baseline showed against itself within the same blocks.
       Pass 0 where that was not measured: trials of successive blocks differ by what pairing
       removes.

    Else it says "no difference shown", unless a `LARGE` one may have been missed: then, and where there is
    no interval, it is "undecided". "No difference shown" is not "no difference": the interval says how
    large it may be.

    The estimate must be beyond the threshold, not the whole interval: a cost of 3 % (0.5 to 5.5)
    is a cost, and its interval says how small it may be.

    Source: significance and practical size as two questions: Kirk (1996), Educational and
    Psychological Measurement 56, 746-759; Georges, Buytaert & Eeckhout (2007), OOPSLA.
    """
    if not sure:
        if low is None or high is None:
            return Ruling("undecided", "few")
        if low <= 0 <= high:
            if is_wide(low, high, threshold):
                return Ruling("undecided", "wide")
            return Ruling(NO_DIFFERENCE, "chance")
    if abs(cost) <= threshold:
        return Ruling(NO_DIFFERENCE, "size")
    if abs(cost) <= floor:
        return Ruling(NO_DIFFERENCE, "floor")
    return Ruling("costs" if cost > 0 else "gains")


def is_wide(low: float, high: float, threshold: float = THRESHOLD) -> bool:
    """Whether an interval of a cost reaches beyond what nobody would call none."""
    large = max(LARGE, threshold)
    return low < -large or high > large


def unanimous(n: int, confidence: float = 0.95) -> bool:
    """Whether n blocks on the same side are enough without any spread to go by: the sign test.

    If either side were as likely, all n would agree by chance with 2^(1-n): six are enough for 95
    %.

    Source: Dixon & Mood (1946), JASA 41, 557-566.
    """
    return min(1.0, 2.0 ** (1 - n)) <= 1 - confidence
