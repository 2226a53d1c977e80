"""From a cost to a verdict: sure enough, large enough, and no chance among many. Needs no library."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
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
       wider, so that this holds for all of them together (`hypertare.stats.practical.levels`).
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


def holm(p_values: Sequence[float]) -> list[float]:
    """p-values adjusted so that a false alarm anywhere among them has the chance that each states.

    Step-down Bonferroni: sorted ascending, the i-th of m is multiplied by m - i + 1, none may be
    below one before it. Holds however the comparisons depend on each other, which matters here:
    every platform of a block is compared with the same baseline trial.

    Source: Holm (1979), Scandinavian Journal of Statistics 6, 65-70.
    """
    adjusted = [0.0] * len(p_values)
    highest = 0.0
    for rank, place in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        highest = max(highest, min(1.0, (len(p_values) - rank) * p_values[place]))
        adjusted[place] = highest
    return adjusted


def levels(
    tested: Sequence[tuple[Hashable, float | None]], confidence: float = 0.95
) -> list[float]:
    """Of every comparison the confidence of the interval that it is shown with and judged by.

    `tested` holds the family of each and its two-sided p-value, none where it has none: that one keeps
    `confidence`. With q = 1 - confidence, m p-values in a family and R of them selected by `discoveries`,
    the level is 1 - q max(R, 1) / m for the whole family. An interval of the same t statistic at that
    level excludes 0 exactly where its p-value is at most q max(R, 1) / m, so exactly where it was selected:
    verdict and interval cannot contradict each other. Of the intervals of what is selected at most a
    share q misses the truth in the mean. Where everything is selected, and where there is one comparison,
    the level is `confidence` itself.

    Source: Benjamini & Yekutieli (2005), Journal of the American Statistical Association 100, 71-81.
    """
    families: dict[Hashable, list[float]] = {}
    for family, p in tested:
        if p is not None:
            families.setdefault(family, []).append(p)
    level = {
        family: 1 - (1 - confidence) * max(discoveries(ps, confidence), 1) / len(ps)
        for family, ps in families.items()
    }
    return [confidence if p is None else level[family] for family, p in tested]


def discoveries(p_values: Sequence[float], confidence: float = 0.95) -> int:
    """How many of m p-values, the least ones, count as found: the largest k whose k-th least is at most
    k (1 - confidence) / m. Of what is found, a share of 1 - confidence is a false alarm in the mean; where
    nothing differs, that is the chance of any alarm in the family.

    It holds for independent tests, and for those that depend positively, as comparisons with one baseline
    do.

    Source: Benjamini & Hochberg (1995), Journal of the Royal Statistical Society B 57, 289-300; for
    positive dependence Benjamini & Yekutieli (2001), Annals of Statistics 29, 1165-1188.
    """
    q, m = 1 - confidence, len(p_values)
    ranked = enumerate(sorted(p_values), start=1)
    return max((rank for rank, p in ranked if p <= rank * q / m), default=0)
