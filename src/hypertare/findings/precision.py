"""Whether costs are known as precisely as was asked for, whatever ended the run. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from hypertare.base.words import listing, place
from hypertare.runs.summary import Estimate


def missed(
    estimates: Sequence[Estimate], headline: Mapping[str, str], precision: float, of_cost: float
) -> str | None:
    """A warning that names the costs of leading responses whose interval is wider than was asked for."""
    wide = [
        one
        for one in estimates
        if one.response == headline.get(str(one.cell.get("workload")))
        and (width := half_width(one)) is not None
        and width > sufficient(one, precision, of_cost)
    ]
    if not wide:
        return None
    named = [f"{one.response} of {place(one.platform, one.cell)}" for one in wide]
    return (
        f"The precision asked for ({100 * precision:g} %{_or(of_cost)}) was not reached in "
        f"{listing(named, 3)}: the run was at its limit of trials or time. More of either narrow the "
        "interval, if the machine is not too busy for that."
    )


def half_width(one: Estimate) -> float | None:
    """Of a cost's interval, as a share of the larger side; none where there is no cost, and infinite
    without an interval, unless it is exact.
    """
    if one.cost is None:
        return None
    if one.cost_low is None or one.cost_high is None:
        return 0.0 if one.exact else math.inf
    return (one.cost_high - one.cost_low) / 2 / max(1.0, _ratio(one))


def sufficient(one: Estimate, precision: float, of_cost: float) -> float:
    """As the stop rule has it (`hypertare.stats.stop`)."""
    ratio = _ratio(one)
    cost = 1 - min(ratio, 1 / ratio) if ratio > 0 else 1.0
    return max(precision, of_cost * cost)


def _ratio(one: Estimate) -> float:
    assert one.cost is not None
    return 1 + one.cost if one.better == "lower" else 1 - one.cost


def _or(of_cost: float) -> str:
    return f", or {100 * of_cost:g} % of the cost itself" if of_cost else ""
