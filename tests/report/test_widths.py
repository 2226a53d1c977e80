"""Tables of `report` and `compare` at every width: nothing is cut, whatever room there is."""

from __future__ import annotations

import io
import re
from dataclasses import replace
from pathlib import Path

import pytest
from rich.cells import cell_len
from rich.console import Console

from hypertare.findings.compare import compare
from hypertare.findings.summarise import read
from hypertare.report import comparison, terminal, terminal_tables
from hypertare.report.model import Report
from tests import factory

WIDTHS = (60, 70, 80, 100, 120)
WIDE = 400


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The second run is slower."""
    script = replace(factory.Script(), fail=frozenset())
    slower = replace(script, seed=8, slower={"guest e1000": 1.2})
    return (
        factory.write(tmp_path_factory.mktemp("a"), script),
        factory.write(tmp_path_factory.mktemp("b"), slower),
    )


def printed(show: object, width: int) -> str:
    out = io.StringIO()
    show(Console(file=out, highlight=False, width=width))  # type: ignore[operator]
    return out.getvalue()


def words(text: str) -> list[str]:
    """Every word that holds a digit, sorted; the same at every width, but for columns' names."""
    return sorted(word.strip(",") for word in text.split() if re.search(r"\d", word))


def assert_whole(text: str, wide: str, width: int) -> None:
    assert max(map(cell_len, text.splitlines())) <= width
    assert "…" not in text
    said = words(text)
    for word in set(words(wide)):
        # In a table "95 % interval" stands once, over all rows.
        assert word in said


@pytest.mark.parametrize("every", [False, True])
@pytest.mark.parametrize("width", WIDTHS)
def test_a_report_is_whole(report: Report, width: int, every: bool) -> None:
    def show(console: Console) -> None:
        terminal.show(report, console, every=every)

    assert_whole(printed(show, width), printed(show, WIDE), width)


@pytest.mark.parametrize("width", WIDTHS)
def test_a_comparison_is_whole(runs: tuple[Path, Path], width: int) -> None:
    a, b = map(read, runs)
    found = compare(a, b, 0.05, a.meta.confidence)

    def show(console: Console) -> None:
        comparison.show(found, a, b, console)

    assert_whole(printed(show, width), printed(show, WIDE), width)


@pytest.mark.parametrize("width", WIDTHS)
def test_a_row_is_in_columns_where_they_fit_and_else_below_its_name(width: int) -> None:
    rows = (
        ("", "n", "mean"),
        ("  guest (nic = rtl8139)", "12", "1234.5678 seconds of virtual time"),
    )

    def show(console: Console) -> None:
        line = terminal_tables.columns(rows)
        console.print(line(rows[0], ""))
        console.print(line(rows[1], ""))

    lines = printed(show, width).splitlines()
    assert any("1234.5678 seconds of virtual time" in line for line in lines)
    assert "guest" in " ".join(lines)
    below = printed(show, 40).splitlines()
    assert below[0].rstrip() == "  guest (nic = rtl8139)"
    assert below[1].startswith("    n 12, mean 1234.5678")
