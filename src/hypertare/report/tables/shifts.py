"""How much later round trips come than the baseline's."""

from __future__ import annotations

from hypertare.base import figures
from hypertare.base.variables import key
from hypertare.report import verdict
from hypertare.report.tables.table import Column, Row, Table, TableSpec, text
from hypertare.runs.summary import Estimate, Shift, Summary
from hypertare.workloads.ping import NEAR_SHARE, NEAR_TIME
from hypertare.workloads.responses import mark_of

SHOWN = (0.1, 0.5, 0.9, 0.99)

SHIFTS = TableSpec(
    "shifts",
    "Against the baseline's round trips",
    "Near: the share of round trips within the 95 % quantile of the baseline's in the same block, so 95 % "
    "of the baseline's own. Near in time: of the time that round trips took, the share in those no longer "
    "than the baseline's mean and a standard deviation. Then how much later they are (the shift function): "
    "the 10 % quantile against the baseline's, the median, and so on, with intervals over blocks.",
    (
        text("setting"),
        Column("near"),
        Column("near in time"),
        *(Column(f"at {100 * share:g} %") for share in SHOWN),
    ),
)


def shift_table(summary: Summary) -> Table:
    near: dict[tuple[str, object, str], Estimate] = {
        (one.platform, key(one.cell), one.response): one
        for one in summary.estimates
        if one.response in (NEAR_SHARE, NEAR_TIME)
    }
    groups: dict[tuple[str, object], dict[float, Shift]] = {}
    for one in summary.shifts:
        groups.setdefault((one.platform, key(one.cell)), {})[one.share] = one
    firsts = [next(iter(by_share.values())) for by_share in groups.values()]
    several = len({one.cell.get("workload") for one in firsts}) > 1
    rows = (
        Row(
            (
                verdict.setting(first.platform, first.cell, () if several else ("workload",)),
                _near(near.get((*place, NEAR_SHARE))),
                _near(near.get((*place, NEAR_TIME))),
                *(_difference(by_share.get(share)) for share in SHOWN),
            )
        )
        for first, (place, by_share) in zip(firsts, groups.items(), strict=True)
    )
    about = verdict.workloads(one.cell for one in firsts) + mark_of(summary.clock)
    return SHIFTS.table(about, rows)


def _near(one: Estimate | None) -> str:
    if one is None:
        return "–"
    if one.low is None or one.high is None or one.low == one.high:
        return f"{100 * one.estimate:.0f} %"
    low, high = max(0.0, one.low), min(1.0, one.high)
    return f"{100 * one.estimate:.0f} % ({100 * low:.0f} to {100 * high:.0f})"


def _difference(one: Shift | None) -> str:
    """In the unit of the middle."""
    if one is None:
        return "–"
    divisor, unit = figures.scale(abs(one.difference), "s")
    middle, *ends = (
        f"{'+' if value > 0 else ''}{figures.significant(value / divisor, 3)}"
        for value in (one.difference, one.low, one.high)
        if value is not None
    )
    around = f" ({' to '.join(ends)})" if len(ends) == 2 and ends[0] != ends[1] else ""
    return f"{middle}{around} {unit}"
