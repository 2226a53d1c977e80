"""What offered rates bring: the shape of goodput over them, and loss-free rates."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hypertare.base.figures import measured, quantity
from hypertare.base.variables import VIRTUAL
from hypertare.report import verdict
from hypertare.report.tables.table import Column, Row, Table, TableSpec, text
from hypertare.report.verdict import Wording
from hypertare.runs.summary import Curve, LossFreeRate

_LOAD = TableSpec(
    "load",
    "Under growing load",
    "The highest goodput, the offered rate at which it is reached, and what is left of it at the "
    "highest rate that was offered. Livelock: work goes into packets that are then thrown away.",
    (
        text("setting"),
        Column("peak"),
        Column("at"),
        Column("at most load"),
        text("so it"),
    ),
)


def curves(found: Sequence[Curve], wording: Wording) -> Table:
    several = len({one.platform for one in found}) > 1
    rows = []
    for one in found:
        share = one.last / one.peak if one.peak > 0 else 0.0
        levels = wording.levels(one.cell)
        cells = (
            f"{one.platform} {levels}".rstrip() if several or not levels else levels,
            quantity(one.peak, one.unit.removesuffix(VIRTUAL)),
            str(one.peak_at).replace(" of capacity", ""),
            f"{100 * share:.0f} %",
            one.kind,
        )
        rows.append(Row(cells, one.kind != "undecided", one.doubt or ""))
    about = verdict.workloads((one.cell for one in found), (one.unit for one in found))
    return _LOAD.table(about, rows)


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
