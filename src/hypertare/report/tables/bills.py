"""The items of a cost, and its unexplained rest."""

from __future__ import annotations

import math
from collections.abc import Iterator

from hypertare.base import figures
from hypertare.base.response import VIRTUAL
from hypertare.base.words import word
from hypertare.report import verdict
from hypertare.report.tables.table import Column, Row, Table, TableSpec, text
from hypertare.runs.summary import Amount, Bill, BillItem, Summary

FORM = TableSpec(
    "bills",
    "The bill",
    "What the platform adds to the baseline's, or all that it has, and what that is made of: how many of "
    "each item, times what one costs, with intervals over boots. What no item explains is said, not shared "
    "out; below nought, items went on at the same time.",
    (text("setting"), text("item"), Column("amount"), Column("share")),
)


def table(summary: Summary) -> Table:
    virtual = VIRTUAL if summary.clock == "virtual" else ""
    about = verdict.workloads(one.cell for one in summary.bills)
    return FORM.table(about + virtual, _rows(summary))


def _rows(summary: Summary) -> Iterator[Row]:
    several = len({bill.cell["workload"] for bill in summary.bills}) > 1
    for bill in summary.bills:
        if bill.cost is not None:
            yield from _of(bill, bill.cost, several)


def _of(bill: Bill, cost: Amount, several: bool) -> Iterator[Row]:
    unit = bill.unit.removesuffix(VIRTUAL)
    named = verdict.setting(bill.platform, bill.cell, () if several else ("workload",))
    beside = f" beside {bill.baseline}" if bill.baseline else ""
    yield Row((named, f"{word(bill.response)}{beside}", *_shown(cost, cost, unit)))
    for item in bill.items:
        yield Row(("", _made(item, unit), *_shown(item.amount, cost, unit)))
    yield Row(("", bill.rest, *_shown(bill.unexplained, cost, unit)))


def _made(item: BillItem, unit: str) -> str:
    """Without a price the number is the amount itself."""
    if item.count is None or item.price is None:
        return item.name
    count, price = figures.significant(item.count, 3), figures.quantity(item.price, unit)
    return f"{item.name}, {count} × {price}"


def _shown(amount: Amount | None, cost: Amount, unit: str) -> tuple[str, str]:
    if amount is None:
        return "not counted", ""
    value, interval = figures.measured(amount.estimate, amount.low, amount.high, unit)
    share = 100 * amount.estimate / cost.estimate if cost.estimate else math.nan
    of_all = f"{figures.number(share, 0)} %" if math.isfinite(share) else "–"
    return f"{value} ({interval})" if interval else value, of_all
