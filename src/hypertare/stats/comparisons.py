"""Many comparisons in one run: some will stand out by chance. Needs no library."""

from __future__ import annotations

from collections.abc import Hashable, Sequence


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
