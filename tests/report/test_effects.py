"""What matters, in reports."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence

import pytest
from rich.console import Console

from hypertare.findings.effects import effects
from hypertare.report.tables import effects as table
from hypertare.report.tables.table import Table
from hypertare.report.terminal_tables import Fitting
from hypertare.report.verdict import Wording
from hypertare.runs.summary import Effects
from hypertare.study.analyses import EffectsSettings
from tests.findings.test_effects import FACTORS, MESSAGE, MTU, RULES, made
from tests.made_trials import GOODPUT

WORDING = Wording({}, frozenset(), 1, "wall", {})


def found(*platforms: str, **changed: object) -> tuple[Effects, ...]:
    trials = [one for platform in platforms for one in made(platform, **changed)]  # type: ignore[arg-type]
    return effects(trials, FACTORS, {"tcp": [GOODPUT]}, EffectsSettings(), RULES)


def texts(one: Table) -> list[tuple[str, ...]]:
    return [row.cells for row in one.rows]


def test_the_largest_comes_first_with_its_size() -> None:
    rows = texts(table.table(found("native"), WORDING))
    platform, what, share, levels, size, total, p = rows[0]
    assert (platform, what, levels) == ("native", "mtu", "1500 in place of 500")
    assert share.startswith("93") and " % (" in share and total.startswith("93")
    assert size.startswith("×1.9") and " to 1.9" in size and p == "below 0.001"
    assert [row[1] for row in rows] == ["mtu", "message", "mtu × message"]


def test_a_terminal_has_five_rows_at_most() -> None:
    several = found("native", "container", "guest", "xen", "driver", "other")
    assert len(table.brief(several, WORDING).rows) == 5
    two = table.brief(several[:2], WORDING)
    assert [row[:2] for row in texts(two)] == [
        ("native", "mtu"),
        ("native", "message"),
        ("container", "mtu"),
        ("container", "message"),
    ]
    assert "noise is" in table.table(several, WORDING).rows[0].note
    # A single platform needs no column.
    assert [row[0] for row in texts(table.brief(several[:1], WORDING))][:2] == ["mtu", "message"]
    assert len(table.table(several, WORDING).rows) == 18
    both = (several[0], several[0].model_copy(update={"response": "elapsed"}))
    assert len(table.brief(both, WORDING).rows) == len(table.brief(both[:1], WORDING).rows)
    assert {row[0] for row in texts(table.table(both, WORDING))} == {
        "native, goodput",
        "native, elapsed",
    }


def test_what_a_title_has_several_of_stands_in_the_rows() -> None:
    one = table.table(found("native"), WORDING)
    assert one.title == "What matters for goodput of tcp"
    other = found("guest")[0].model_copy(update={"of": "efficiency"})
    two = table.table((*found("native"), other), WORDING)
    assert two.title == "What matters for goodput, the efficiency in goodput of tcp"
    assert two.rows[-1].cells[0] == "guest, the efficiency in goodput"


def test_what_was_left_out_is_reported() -> None:
    (row, *_) = table.table(found("native", failed={MTU: 500, MESSAGE: "8K"}), WORDING).rows
    assert "left out, for no trial of it was good: mtu 500 message 8K" in row.note
    assert "by least squares" in row.note
    (row,) = table.table(found("native", boots=1), WORDING).rows
    assert row.note == "no effects: no replicates" and not row.sure


@pytest.mark.parametrize("width", [50, 60, 70, 76, 78, 80, 90, 100, 120, 200])
@pytest.mark.parametrize("form", [table.table, table.brief])
def test_figures_are_never_cut_off(
    width: int, form: Callable[[Sequence[Effects], Wording], Table]
) -> None:
    one = form(found("native", "container", noise=0.2), WORDING)
    console = Console(file=io.StringIO(), width=width)
    console.print(Fitting(one))
    said = " ".join(console.file.getvalue().split())  # type: ignore[attr-defined]
    for row in one.rows:
        for column, cell in zip(one.columns, row.cells, strict=True):
            assert column.is_text or cell in said or width < 60
