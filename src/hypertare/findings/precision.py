"""Whether costs are known as precisely as was asked for, whatever ended the run. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from hypertare.base.words import listing, place, word
from hypertare.runs.summary import Estimate, NoiseFloor
from hypertare.stats.ratio import of_cost
from hypertare.study.design import DesignSettings


def missed(
    estimates: Sequence[Estimate],
    floors: Sequence[NoiseFloor],
    headline: Mapping[str, str],
    design: DesignSettings,
) -> Iterator[str]:
    """A warning that names the costs of leading responses whose interval is wider than was asked for."""
    wide = [
        one
        for one in estimates
        if one.response == headline.get(str(one.cell.get("workload")))
        and (width := half_width(one)) is not None
        and width > sufficient(one, design, spread_of_baseline(one, floors))
    ]
    if wide:
        named = [f"{word(one.response)} of {place(one.platform, one.cell)}" for one in wide]
        # Of these precisions one suffices.
        aims = [f"{100 * design.precision:g} %"]
        if design.of_cost:
            aims.append(f"{100 * design.of_cost:g} % of the cost itself")
        if design.of_noise:
            aims.append("the machine's own noise")
        yield (
            f"The precision asked for ({', or '.join(aims)}) was not reached in "
            f"{listing(named, 3)}: the run was at its limit of trials or time. More of either narrow the "
            "interval, if the machine is not too busy for that."
        )


def half_width(one: Estimate) -> float | None:
    """Returns the half-width of a cost's interval as a share of the larger side.

    It is None without a cost, 0 for an exact cost, and infinite for any other cost without an interval.
    """
    if one.cost is None:
        return None
    if one.cost_low is None or one.cost_high is None:
        return 0.0 if one.exact else math.inf
    return (one.cost_high - one.cost_low) / 2 / max(1.0, _ratio(one))


def sufficient(one: Estimate, design: DesignSettings, spread: float) -> float:
    """Returns the half-width that suffices, as in the stop rule (`hypertare.stats.stop`).

    `spread` is the baseline's own, as a share.
    """
    ratio = _ratio(one)
    smaller = min(ratio, 1 / ratio) if ratio > 0 else 0.0
    noise = design.of_noise * spread * min(1.0, ratio)
    return max(design.precision, design.of_cost * (1 - smaller), noise)


def spread_of_baseline(one: Estimate, floors: Sequence[NoiseFloor]) -> float:
    """How much the baseline of a cost differed from one block to the next, a share; 0 where that is not
    known. A baseline's cell lacks what only the platform has.
    """
    found = [
        floor.spread
        for floor in floors
        if floor.response == one.response and floor.cell.items() <= one.cell.items()
    ]
    return found[0] if len(found) == 1 else 0.0


def _ratio(one: Estimate) -> float:
    assert one.cost is not None
    return of_cost(one.cost, one.better)
