"""Numbers of virtual time say so wherever they are shown, and what that means stands beside them."""

from __future__ import annotations

import html as markup
import io
import re
from pathlib import Path

import polars
import pytest
from rich.console import Console

from hypertare.findings.compare import compare
from hypertare.findings.summarise import read as read_run
from hypertare.report import comparison, data, html, markdown, terminal
from hypertare.report.model import Report
from hypertare.workloads.responses import meaning
from tests import factory
from tests.report.conftest import read
from tests.report.vega_lite import charts_of

UNMARKED = re.compile(r"\d (?:[kMGT]?b/s|[mµn]?s|s/GB|%|packets/s|faults)\b(?! \(virtual\))")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    script = factory.Script(4, clock="virtual", fail=frozenset())
    return factory.write(tmp_path_factory.mktemp("virtual") / "run", script)


@pytest.fixture(scope="module")
def virtual(run: Path) -> Report:
    return read(run)


def printed(report: Report) -> str:
    console = Console(file=io.StringIO(), width=4000)
    terminal.show(report, console, every=True)
    return console.file.getvalue()  # type: ignore[attr-defined]


def test_it_is_two_sentences() -> None:
    assert len(re.findall(r"\.(?: |$)", meaning("virtual"))) == 2
    assert meaning("wall") == ""


def test_it_says_whose_page_walks_are_in_the_time() -> None:
    said = meaning("virtual", ("none", "phenom2", "zen4"))
    assert "as on a model of phenom2 or zen4 (or free, where emulated.walks is none)" in said
    assert "(caches of data, memory bandwidth)" in said
    assert "or free" not in meaning("virtual", ("zen4",))


def test_the_meaning_stands_with_the_numbers(virtual: Report, report: Report) -> None:
    said = meaning("virtual")
    shown = (printed, markdown.render, lambda one: markup.unescape(html.render(one)))
    for show in shown:
        assert said in show(virtual).replace("\\", "")
        assert said not in show(report).replace("\\", "")


def test_no_unit_goes_without_its_mark(virtual: Report) -> None:
    page = html.render(virtual)
    tables = "\n".join(re.findall(r"<td[^>]*>([^<\n]*)", page))
    measured = [cell for cell in tables.splitlines() if not re.search(r"^[+−]|^[\d.,]+ %$", cell)]
    assert sum("(virtual)" in cell for cell in measured) > 100
    assert [cell for cell in measured if UNMARKED.search(markup.unescape(cell))] == []
    assert not UNMARKED.search(
        "\n".join(line for line in printed(virtual).splitlines() if "mean" in line)
    )


def test_axes_have_the_mark(virtual: Report) -> None:
    titles: list[str] = []

    def collect(part: object) -> None:
        if isinstance(part, dict):
            axis = (
                [part.get("title")]
                if "field" in part and part.get("type") == "quantitative"
                else []
            )
            titles.extend(title for title in axis if isinstance(title, str))
            for value in part.values():
                collect(value)
        elif isinstance(part, list):
            for value in part:
                collect(value)

    collect(charts_of(html.render(virtual)))
    of_time = [t for t in titles if re.search(r"\b(s|ms|µs|seconds|[kMG]b/s)\b", t)]
    assert len(of_time) > 10
    assert [title for title in of_time if "(virtual)" not in title] == []


def test_exports_have_it_in_their_unit(virtual: Report) -> None:
    units = data.frame(virtual).filter(polars.col("unit").is_not_null())["unit"]
    assert len(units) and all(unit.endswith(" (virtual)") for unit in units)


def test_two_runs_of_virtual_time_side_by_side(run: Path) -> None:
    console = Console(file=io.StringIO(), width=4000)
    found = read_run(run)
    comparison.show(compare(found, found), found, found, console)
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert meaning("virtual") in text and "elapsed (virtual)" in text
