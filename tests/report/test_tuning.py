"""A tuning as a page: drawn in a real browser, with the terminal's words and figures."""

from __future__ import annotations

import io
import re
from pathlib import Path

import pytest
from rich.console import Console

from hypertare.findings.tuning import Tuning
from hypertare.report import tuning, tuning_html
from hypertare.report.page import write
from hypertare.report.tables import tuning as tables
from tests.report.browser import PAYLOADS, Page
from tests.report.vega_lite import charts_of, check
from tests.tune.made_tuning import made


@pytest.fixture(scope="module")
def found() -> Tuning:
    return made()


@pytest.fixture(scope="module")
def file(found: Tuning, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("tuning") / "report.html"
    write(tuning_html.render(found), path)
    return path


def test_what_is_drawn_is_sound(found: Tuning) -> None:
    for chart in charts_of(tuning_html.render(found)).values():
        check(chart)


def test_every_chart_is_drawn_without_a_word_or_a_request(
    page: Page, file: Path, found: Tuning
) -> None:
    page.open(file)
    assert found.effects and found.confirmation is not None
    # Effects on both responses, the search, its course, the confirmation.
    assert page.drawn() == 5
    assert page.messages() == []
    assert set(page.requests()) <= {file.as_uri(), "data:,"}
    points = (
        "return document.querySelector('[data-chart=%s]')"
        ".querySelectorAll('.mark-symbol.role-mark path').length"
    )
    assert page.run(points % "front") == len(found.tried)
    assert page.run(points % "course") == len(found.looks)
    assert page.run(points % "duels") == found.confirmation.blocks + 1


def test_the_page_says_what_the_terminal_says(page: Page, file: Path, found: Tuning) -> None:
    page.open(file)
    text = " ".join(page.run("return document.body.innerText").split())
    out = io.StringIO()
    tuning.show(found, Console(file=out, width=200))
    assert found.verdict in text and found.verdict in " ".join(out.getvalue().split())
    for table in tables.tables(found):
        assert table.title in text
        for row in table.rows:
            assert " ".join(filter(None, row.cells)) in text
    for step in found.steps:
        for _, words in tuning.lines(step):
            assert all(" ".join(line.split()) in text for line in words)


def test_large_gains_are_factors_and_minus_is_minus(found: Tuning) -> None:
    """A column has one unit, and no power of ten."""
    first, second, *rest = found.effects
    huge = first.model_copy(update={"change": 46.9, "low": 30.0, "high": 70.0})
    less = second.model_copy(
        update={
            "response": first.response,
            "change": -0.2,
            "low": -0.3,
            "high": -0.1,
            "shown": True,
        }
    )
    table = tables.effects(
        found.model_copy(update={"effects": (huge, less, *rest)}), first.response
    )
    column = [row.cells[1] for row in table.rows]
    assert column[0] == "×48" and "×0.80" in column
    assert all(cell.startswith("×") for cell in column)
    reported = " ".join(
        cell for one in tables.tables(found) for row in one.rows for cell in row.cells
    )
    assert "−" in reported and "e+" not in reported
    assert not re.search(r"(?:^| )-\d", reported)


def test_no_width_needs_scrolling_sideways(page: Page, file: Path) -> None:
    page.open(file, 390)
    page.drawn()
    assert page.run("return document.documentElement.scrollWidth") <= 390


def test_what_a_study_says_stays_text(page: Page, tmp_path: Path) -> None:
    attack = " ".join(PAYLOADS)
    path = tmp_path / "report.html"
    write(tuning_html.render(made(attack)), path)
    page.open(path)
    page.drawn()
    assert page.run("return window.pwned") is None
    text = page.run("return document.body.innerText")
    assert all(payload in text for payload in PAYLOADS)
    assert page.messages() == []
