"""Loss-free rates."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hypertare.base.figures import measured, quantity
from hypertare.report import verdict
from hypertare.report.tables.table import Column, Row, Table, TableSpec, text
from hypertare.runs.summary import LossFreeRate

_LOSS_FREE = TableSpec(
    "loss-free",
    "Loss-free rates",
    "The highest rate that loses no more than the goal, searched by MLRsearch: it holds up to the "
    "first rate, and not at the second.",
    (
        text("setting"),
        Column("goal"),
        Column("up to"),
        Column("not at"),
        Column("loss there"),
        Column("trials"),
    ),
)


def loss_free(found: Sequence[LossFreeRate]) -> Table:
    rows = (
        Row(
            (
                verdict.setting(one.platform, one.cell, ("workload",)),
                f"{100 * one.goal:g} %",
                *_bounds(one),
                quantity(one.upper.loss, "share") if one.upper else "–",
                str(one.trials),
            ),
            one.state == "found",
            "; ".join(_notes(one)),
        )
        for one in found
    )
    return _LOSS_FREE.table(verdict.workloads(one.cell for one in found), rows)


def _bounds(one: LossFreeRate) -> tuple[str, str]:
    """Both rates; where there are two the second is in the unit of the first."""
    lower, upper = one.lower, one.upper
    if lower and upper:
        rate, ends = measured(lower.rate, lower.rate, upper.rate, one.unit)
        return rate, ends.partition(" to ")[2]
    return (
        quantity(lower.rate, one.unit) if lower else "–",
        quantity(upper.rate, one.unit) if upper else "–",
    )


def _notes(one: LossFreeRate) -> Iterator[str]:
    """What the figures alone do not say."""
    ended = {
        "failed": f"failed: {one.reason}",
        "open": "not ended: the bounds so far",
        "limit": f"ended at its limit of {one.trials} trials: the bounds so far",
        "all lose": "the lowest rate of the search loses already",
        "none loses": "the highest rate of the search does not lose either",
    }
    if one.state in ended:
        yield ended[one.state]
    if one.sender:
        yield "the sender cannot send faster"
    if one.good_above is not None:
        rate = quantity(one.good_above, one.unit)
        yield f"irregular: {rate} lost no more than the goal"
    if one.bad_below:
        trials = "1 trial" if one.bad_below == 1 else f"{one.bad_below} trials"
        yield f"irregular: {trials} at or below the bound lost more than the goal"
