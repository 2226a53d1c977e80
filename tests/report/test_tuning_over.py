"""A tuning of several levels as a page: its charts, with the terminal's words and figures."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from hypertare.findings.tuning import TuningOver
from hypertare.report import tuning_over
from hypertare.report.page import write
from hypertare.report.tables.tuning import over_tables
from tests.report.browser import PAYLOADS, Page
from tests.report.vega_lite import charts_of, check
from tests.tune.made_over import made

BEST = {1: 256, 2: 1024, 4: 4096, 8: 4096}


@pytest.fixture(scope="module")
def found() -> TuningOver:
    return made(BEST)


def test_what_is_drawn_is_sound(found: TuningOver) -> None:
    (chart,) = charts_of(tuning_over.render(found)).values()
    check(chart)


def test_the_page_says_what_the_terminal_says(
    page: Page, tmp_path: Path, found: TuningOver
) -> None:
    path = tmp_path / "report.html"
    write(tuning_over.render(found), path)
    page.open(path)
    assert page.drawn() == 1 and page.messages() == []
    points = (
        "return document.querySelector('[data-chart=law0]')"
        ".querySelectorAll('.mark-symbol.role-mark path').length"
    )
    assert page.run(points) == len(BEST)
    text = " ".join(page.run("return document.body.innerText").split())
    out = io.StringIO()
    tuning_over.show(found, Console(file=out, width=240))
    shown = " ".join(out.getvalue().split())
    assert found.verdict in text and found.verdict in shown
    for table in over_tables(found):
        assert table.title in text and table.title in shown
        for row in table.rows:
            assert " ".join(filter(None, row.cells)) in text
    # What to type stands there for each level.
    for level in BEST:
        assert f"For sut.guests = {level}" in text and f"For sut.guests = {level}:" in shown
    assert page.run("return document.documentElement.scrollWidth") <= page.run(
        "return window.innerWidth"
    )


def test_one_that_is_not_ended_is_shown_too(found: TuningOver) -> None:
    begun = found.model_copy(
        update={
            "complete": False,
            "tuned": (),
            "laws": (),
            "confirmed": None,
            "verdict": "Not ended yet.",
        }
    )
    out = io.StringIO()
    tuning_over.show(begun, Console(file=out, width=120))
    assert "Not ended yet." in out.getvalue()
    assert "Not ended yet." in tuning_over.render(begun)


def test_what_a_study_says_stays_text(page: Page, tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    write(tuning_over.render(made(BEST, " ".join(PAYLOADS))), path)
    page.open(path)
    page.drawn()
    assert page.run("return window.pwned") is None
    assert page.messages() == []
