"""Many comparisons in one run: some will stand out by chance."""

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


def by_chance(
    tested: Sequence[tuple[Hashable, float | None]], confidence: float = 0.95
) -> list[bool]:
    """Of every comparison whether, among all of its family, it may be chance.

    `tested` holds the family of each and its p-value, none where it has none. Within a family a false
    alarm anywhere has a chance of at most 1 - confidence (`holm`). What a study asks is a family of its
    own, so that it does not pay for what is reported beside it.
    """
    families: dict[Hashable, list[int]] = {}
    for place, (family, p) in enumerate(tested):
        if p is not None:
            families.setdefault(family, []).append(place)
    found = [False] * len(tested)
    for places in families.values():
        for place, adjusted in zip(
            places, holm([tested[i][1] or 0.0 for i in places]), strict=True
        ):
            found[place] = adjusted > 1 - confidence
    return found
