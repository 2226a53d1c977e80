"""How near round trips are to the baseline's, as a report shows it."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from hypertare.findings.summarise import summarise
from hypertare.report import markdown, terminal
from hypertare.report.model import gather
from hypertare.report.tables import shifts
from hypertare.runs.store import Store
from hypertare.runs.summary import Estimate, Shift, Summary
from tests import factory


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return factory.write(tmp_path / "run")


def summary_of(run: Path) -> Summary:
    with Store.open(run) as store:
        return summarise(store)


def test_a_row_for_each_platform_that_was_compared(run: Path) -> None:
    summary = summary_of(run)
    table = shifts.shift_table(summary)
    assert table.title == "Against the baseline's round trips of rtt"
    assert [row.cells[0] for row in table.rows] == list(
        dict.fromkeys(
            " ".join([one.platform, *(str(one.cell[f]) for f in one.cell if f == "sut.nic")])
            for one in summary.shifts
        )
    )
    assert all(cell.endswith("s") for row in table.rows for cell in row.cells[3:])
    near = {one.platform: one for one in summary.estimates if one.response == "near_share"}
    assert "native" not in near and near["guest"].baseline is None
    # Slower on the whole is slower at the middle, and less of it is near.
    middle = {one.platform: one.difference for one in summary.shifts if one.share == 0.5}
    assert middle["guest"] > middle["container"]
    assert near["guest"].estimate < near["container"].estimate
    in_time = {one.platform: one for one in summary.estimates if one.response == "near_time"}
    assert in_time["guest"].estimate < in_time["container"].estimate


def made(share: float, difference: float, low: float | None, high: float | None) -> Shift:
    cell = {"workload": "rtt", "sut.nic": "e1000"}
    return Shift(
        cell=cell,
        platform="guest",
        baseline="native",
        share=share,
        difference=difference,
        low=low,
        high=high,
        n=3,
    )


def test_figures_by_hand(run: Path) -> None:
    whole = summary_of(run)
    near = next(one for one in whole.estimates if one.response == "near_share")
    reported: Estimate = near.model_copy(
        update={
            "cell": {"workload": "rtt", "sut.nic": "e1000"},
            "platform": "guest",
            "estimate": 0.784,
            "low": 0.7,
            "high": 1.02,
        }
    )
    in_time = reported.model_copy(update={"response": "near_time", "estimate": 0.5, "low": None})
    summary = whole.model_copy(
        update={
            "estimates": (reported, in_time),
            "shifts": (made(0.1, 5e-6, 4e-6, 6e-6), made(0.5, -2.5e-3, None, None)),
        }
    )
    (row,) = shifts.shift_table(summary).rows
    assert row.cells == (
        *("guest e1000", "78 % (70 to 100)", "50 %"),
        *("+5.00 (+4.00 to +6.00) µs", "−2.50 ms", "–", "–"),
    )


def test_it_is_not_of_a_first_screen(run: Path) -> None:
    with Store.open(run) as store:
        report = gather(store, summarise(store))
    for every in (False, True):
        out = io.StringIO()
        terminal.show(report, Console(file=out, width=120), every=every)
        assert ("against the baseline's round trips" in out.getvalue().lower()) == every
    assert "## Against the baseline's round trips of rtt" in markdown.render(report)
