"""Many comparisons in one run: some will stand out by chance."""

from __future__ import annotations

from collections.abc import Sequence


def false_alarms(comparisons: int, confidence: float = 0.95) -> float:
    """How many intervals are expected to exclude the truth if nothing differs anywhere."""
    return comparisons * (1 - confidence)


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
