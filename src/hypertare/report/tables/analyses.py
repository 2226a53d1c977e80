"""What a study's analyses found, and the bill: the items of a cost with its unexplained rest."""

from __future__ import annotations

import math
from collections.abc import Iterator

from hypertare.base import figures
from hypertare.base.figures import word
from hypertare.base.variables import VIRTUAL
from hypertare.report import verdict
from hypertare.report.tables.table import Column, Row, Table, TableSpec, text, with_interval
from hypertare.runs.summary import Amount, AnalysedFigure, Bill, Summary
from hypertare.workloads.responses import mark_of


def analyses(summary: Summary) -> Iterator[Table]:
    for one in summary.analyses:
        columns = (text("setting"), text("of"), *map(Column, one.columns))
        about = verdict.workloads(row.cell for row in one.rows) + mark_of(summary.clock)
        rows = tuple(
            Row(
                (
                    f"{row.cell['workload']} {verdict.setting(row.platform, row.cell, ('workload',))}",
                    row.what,
                    *map(_shown, row.figures),
                )
            )
            for row in one.rows
        )
        yield Table(one.name, one.title, f"{one.title} of {about}", one.note, columns, rows)


def _shown(figure: AnalysedFigure | None) -> str:
    if figure is None:
        return "–"
    return with_interval(*figures.measured(figure.estimate, figure.low, figure.high, figure.unit))


BILLS = TableSpec(
    "bills",
    "The bill",
    "What the platform adds to the baseline's, or all that it has, and what that is made of: how many of "
    "each item, times what one costs, with intervals over boots. What no item explains is said, not shared "
    "out; below nought, items went on at the same time.",
    (text("setting"), text("item"), Column("amount"), Column("share")),
)


def bill_table(summary: Summary) -> Table:
    about = verdict.workloads(one.cell for one in summary.bills) + mark_of(summary.clock)
    several = len({bill.cell["workload"] for bill in summary.bills}) > 1
    return BILLS.table(about, (row for bill in summary.bills for row in _of(bill, several)))


def _of(bill: Bill, several: bool) -> Iterator[Row]:
    if bill.cost is None:
        return
    unit = bill.unit.removesuffix(VIRTUAL)
    named = verdict.setting(bill.platform, bill.cell, () if several else ("workload",))
    beside = f" beside {bill.baseline}" if bill.baseline else ""
    yield Row((named, f"{word(bill.response)}{beside}", *_amount(bill.cost, bill.cost, unit)))
    for item in bill.items:
        name = item.name
        # Without a price the number is the amount itself.
        if item.count is not None and item.price is not None:
            price = figures.quantity(item.price, unit)
            name = f"{name}, {figures.significant(item.count, 3)} × {price}"
        yield Row(("", name, *_amount(item.amount, bill.cost, unit)))
    yield Row(("", bill.rest, *_amount(bill.unexplained, bill.cost, unit)))


def _amount(amount: Amount | None, cost: Amount, unit: str) -> tuple[str, str]:
    if amount is None:
        return "not counted", ""
    value = with_interval(*figures.measured(amount.estimate, amount.low, amount.high, unit))
    share = 100 * amount.estimate / cost.estimate if cost.estimate else math.nan
    return value, f"{figures.number(share, 0)} %" if math.isfinite(share) else "–"
