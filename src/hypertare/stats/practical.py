"""From a cost to a verdict: sure enough, and large enough to matter. Needs no library."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Verdict = Literal["costs", "gains", "no difference shown"]
Reason = Literal["chance", "size", "floor", "many"]
"""Why no difference is shown: it may be chance; it is too small to matter; the baseline differed as much
from itself; as one of many comparisons it may be chance."""


THRESHOLD = 0.01
"""The least cost that matters where nobody said otherwise: 1 %."""


@dataclass(frozen=True)
class Ruling:
    """A verdict; `reason` is why it shows no difference, else none."""

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
    many: bool = False,
) -> Ruling:
    """Says "costs" or "gains" where four things hold, else "no difference shown".

    1. The interval excludes 0 (significance), or `sure`: the cost came out the same, without any
       spread, often enough (`unanimous`) or in virtual time.
    2. The cost lies beyond `threshold` (practical size). With enough trials every difference
       becomes significant; a reader asks for those that matter.
    3. The cost lies beyond `floor`: what the baseline showed against itself within the same blocks.
       Pass 0 where that was not measured: trials of successive blocks differ by what pairing
       removes.
    4. It is not `many`: one of so many comparisons that its interval alone does not tell it from
       chance (`hypertare.stats.comparisons`).

    The estimate must be beyond the threshold, not the whole interval: a cost of 3 % (0.5 to 5.5)
    is a cost, and its interval says how small it may be. "No difference shown" is not "no
    difference".

    Source: significance and practical size as two questions: Kirk (1996), Educational and
    Psychological Measurement 56, 746-759; Georges, Buytaert & Eeckhout (2007), OOPSLA.
    """
    excludes = sure if low is None or high is None else low > 0 or high < 0
    conditions: tuple[tuple[bool, Reason], ...] = (
        (excludes, "chance"),
        (abs(cost) > threshold, "size"),
        (abs(cost) > floor, "floor"),
        (not many, "many"),
    )
    for stands, reason in conditions:
        if not stands:
            return Ruling("no difference shown", reason)
    return Ruling("costs" if cost > 0 else "gains")


def unanimous(n: int, confidence: float = 0.95) -> bool:
    """Whether n blocks on the same side are enough without any spread to go by: the sign test.

    If either side were as likely, all n would agree by chance with 2^(1-n): six are enough for 95
    %.

    Source: Dixon & Mood (1946), JASA 41, 557-566.
    """
    return agreement(n) <= 1 - confidence


def agreement(n: int) -> float:
    """Two-sided p-value of the sign test where all n agree."""
    return min(1.0, 2.0 ** (1 - n))
