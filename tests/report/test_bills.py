"""What a cost is made of, as a report shows it."""

from __future__ import annotations

from pathlib import Path

import pytest

from hypertare.findings.summarise import summarise
from hypertare.report.tables import analyses
from hypertare.runs.store import Store
from hypertare.runs.summary import Amount, Bill, BillItem, Summary
from tests import factory


@pytest.fixture
def summary(tmp_path: Path) -> Summary:
    with Store.open(factory.write(tmp_path / "run")) as store:
        return summarise(store)


def amount(us: float, around: float = 0.0) -> Amount:
    ends = ((us - around) * 1e-6, (us + around) * 1e-6) if around else (None, None)
    return Amount(estimate=us * 1e-6, low=ends[0], high=ends[1])


def test_no_study_has_one_that_did_not_ask(summary: Summary) -> None:
    assert summary.bills == () and analyses.bill_table(summary).rows == ()


def test_figures_by_hand(summary: Summary) -> None:
    bill = Bill(
        cell={"workload": "rtt", "sut.datapath": "vhost"},
        platform="guest",
        baseline="native",
        response="rtt_p50",
        unit="s (virtual)",
        n=4,
        cost=amount(256, 33),
        items=(
            BillItem(name="exits", count=4.08, price=25.1e-6, amount=amount(102, 30)),
            BillItem(name="the host's kernel", count=144e-6, price=None, amount=amount(144)),
            BillItem(name="walks", count=None, price=None, amount=None),
        ),
        unexplained=amount(-8, 65),
    )
    virtual = {"bills": (bill,), "clock": "virtual"}
    table = analyses.bill_table(summary.model_copy(update=virtual))
    assert table.title == "The bill of rtt (virtual)"
    assert [row.cells for row in table.rows] == [
        ("guest vhost", "rtt p50 beside native", "256 µs (223 to 289)", "100 %"),
        ("", "exits, 4.08 × 25.1 µs", "102 µs (72 to 132)", "40 %"),
        ("", "the host's kernel", "144 µs", "56 %"),
        ("", "walks", "not counted", ""),
        ("", "unexplained", "−8 µs (−73 to 57)", "−3 %"),
    ]


def test_a_bill_of_all_that_there_is_stands_beside_nothing(summary: Summary) -> None:
    bill = Bill(
        cell={"workload": "read"},
        platform="guest",
        baseline=None,
        response="run_per_operation",
        unit="instructions (virtual)",
        n=4,
        cost=Amount(estimate=90_000, low=None, high=None),
        items=(
            BillItem(
                name="the program",
                count=3_000,
                price=None,
                amount=Amount(estimate=3_000, low=None, high=None),
            ),
        ),
        rest="other threads",
        unexplained=Amount(estimate=87_000, low=None, high=None),
    )
    other = bill.model_copy(update={"cell": {"workload": "write"}})
    virtual = {"bills": (bill, other), "clock": "virtual"}
    table = analyses.bill_table(summary.model_copy(update=virtual))
    assert [row.cells[:2] for row in table.rows] == [
        *(("guest read", "run per operation"), ("", "the program"), ("", "other threads")),
        *(("guest write", "run per operation"), ("", "the program"), ("", "other threads")),
    ]
    assert table.rows[0].cells[2] == "90,000 instructions"
