"""A study of many cells at a glance: what was found comes first, cells are looked up in a grid."""

from __future__ import annotations

import base64
import io
import re
from pathlib import Path

import pytest
from rich.cells import cell_len
from rich.console import Console

from hypertare.base.errors import InputError
from hypertare.base.figures import level_text
from hypertare.report import html, markdown, model, terminal
from hypertare.report.model import Report
from hypertare.report.page import write
from hypertare.report.tables import grid
from tests import made_weights
from tests.report.browser import Page
from tests.report.conftest import read

MOST_LINES = 60
OTHERS = 2
"""Lines that the command prints after the report."""
SCREEN = 900


@pytest.fixture(scope="module")
def weights(tmp_path_factory: pytest.TempPathFactory) -> Report:
    return read(made_weights.write(tmp_path_factory.mktemp("weights") / "run"))


@pytest.fixture(scope="module")
def file(weights: Report, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("page") / "report.html"
    write(html.render(weights), path)
    return path


def shown(report: Report, width: int = 80, every: bool = False) -> str:
    out = io.StringIO()
    terminal.show(report, Console(file=out, highlight=False, width=width), every=every)
    return out.getvalue()


def test_the_terminal_has_sixty_lines_with_the_claims_first(weights: Report) -> None:
    text = shown(weights)
    lines = text.splitlines()
    assert len(lines) + OTHERS <= MOST_LINES
    assert max(map(cell_len, lines)) <= 80
    answer = next(i for i, line in enumerate(lines) if "claims: " in line)
    claim = next(i for i, line in enumerate(lines) if "Weight 1 loses packets" in line)
    table = next(i for i, line in enumerate(lines) if "goodput of load" in line)
    assert answer < claim < table
    assert answer <= 5


def test_of_many_claims_those_that_hold_have_their_evidence_with_all(weights: Report) -> None:
    first, every = weights.summary.claims[0], shown(weights, 400, every=True)
    assert first.judgement == "holds" and f"{first.text}: {first.evidence}" in every
    assert f"holds: {first.text}\n" in re.sub(" +\n", "\n", shown(weights, 400))


def test_claims_are_words_without_paths_or_powers_of_ten(weights: Report) -> None:
    for text in (
        shown(weights),
        shown(weights, 40),
        "".join(c.evidence for c in weights.summary.claims),
    ):
        assert not re.search(r"knobs\.|workloads\.|sut\.|\de[+-]\d", text)
    said = " ".join(shown(weights, every=True).split())
    assert "loss 61.3 % (virtual) against 2.29 % with napi weight 60, difference 59" in said


def test_cells_are_in_the_order_of_the_study(weights: Report) -> None:
    assert len(weights.cells) == 42
    assert [(c["workload"], c["knobs.napi_weight"]) for c in weights.cells.values()] == [
        (c["workload"], c["knobs.napi_weight"]) for c in made_weights.cells()
    ]


def test_a_grid_holds_every_cell(weights: Report) -> None:
    both, load = grid.tables(weights)
    assert [column.name for column in both.columns] == ["workload", "1", "2", "8", "60", "200"]
    assert [row.cells[0] for row in both.rows] == ["tcp", "udp"]
    assert [column.name for column in load.columns][:3] == ["napi weight", "socket buffer", "30 %"]
    assert [row.cells[:2] for row in load.rows][:3] == [("1", "16K"), ("1", "8M"), ("2", "16K")]
    assert sum(len(row.cells) - 2 for row in load.rows) == 32
    assert float(load.rows[5].cells[-1]) == pytest.approx(175, rel=0.03)
    assert "at most" in load.note
    document, whole = markdown.render(weights), markdown.render(weights, every=True)
    assert "Goodput of load, Mb/s (virtual), by rate" in document
    assert "## load napi weight 1" not in document and "## load napi weight 1" in whole
    assert len(document.split()) < 2000 < len(whole.split())


def test_a_platform_without_the_factor_has_a_column(weights: Report) -> None:
    """As a container's has no card: its figure is of all of the factor's levels."""
    rate = "workloads.load.rate"
    with_it = [one for one in weights.estimates() if rate in one.cell and one.response == "goodput"]
    without = with_it[0].model_copy(
        update={
            "platform": "container",
            "cell": {k: v for k, v in with_it[0].cell.items() if k != rate},
        }
    )
    table = grid._table(weights, 1, [without, *with_it])
    none = [column.name for column in table.columns].index("–")
    assert table.rows[0].cells[0] == "container" and table.rows[0].cells[none]
    assert all(not row.cells[none] for row in table.rows[1:])


def test_a_run_whose_comparisons_are_rows_has_no_grid(report: Report) -> None:
    assert report.leading and not list(grid.tables(report))


def test_the_page_is_eight_screens_and_twelve_sheets(
    weights: Report, page: Page, file: Path
) -> None:
    page.open(file, 1300, unfolded=False)
    assert page.drawn() > 7
    # Each claim beyond eight has a row of three lines.
    claims = 90 * (len(weights.summary.claims) - 8)
    assert page.run("return document.documentElement.scrollHeight") <= 8 * SCREEN + claims
    order = page.run("return [...document.querySelectorAll('main > section')].map((s) => s.id)")
    assert order[:3] == ["verdict", "claims", "plots"] and order.index("cells") > 3
    assert not page.run("return document.querySelector('#cells details').open")
    printed = page.driver.execute_cdp_cmd("Page.printToPDF", {"printBackground": True})
    sheets = re.findall(rb"/Type\s*/Page\b", base64.b64decode(printed["data"]))
    assert 0 < len(sheets) <= 12
    assert page.messages() == []


def test_a_link_unfolds_a_cell_and_draws_it(page: Page, file: Path) -> None:
    page.open(file, 1300, unfolded=False)
    page.drawn()
    drawn = page.drawn_now()
    page.run("location.hash = '#cell3'")
    assert page.run("return new Promise((go) => setTimeout(() => go(1), 200))") == 1
    page.drawn()
    assert page.run("return document.getElementById('cell3').open")
    assert page.drawn_now() > drawn


def test_axes_are_plain_numbers_and_lines_are_reported_apart(page: Page, file: Path) -> None:
    page.open(file, 1300, unfolded=False)
    page.drawn()
    labels = page.run(
        "return [...document.querySelectorAll('#plots .role-axis-label text')].map((t) => t.textContent)"
    )
    assert "150" in labels and not [label for label in labels if "e+" in label]
    assert not [label for label in labels if label.startswith(("−", "-"))]
    dashes = page.run(
        "return [...new Set([...document.querySelectorAll('[data-chart=plot0] .mark-line path')]"
        ".map((path) => path.getAttribute('stroke-dasharray')))].length"
    )
    assert dashes == 4


# --- hundreds of cells


def test_of_hundreds_of_cells_a_page_has_what_leads(
    weights: Report, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = html.render(weights)
    monkeypatch.setattr(model, "MOST_WHOLE_CELLS", 41)
    lean = html.render(weights)
    cells, all_of_them = (
        re.search(r'<section id="cells">.*?</section>', page, re.DOTALL)[0]  # type: ignore[index]
        for page in (lean, whole)
    )
    assert len(cells) < len(all_of_them) / 5
    assert lean.count('<details class="cell"') == 42
    assert cells.count("<b>goodput</b>: payload received over time") == 42
    assert "Every trial: goodput" in whole and "Every trial: goodput" not in lean
    assert "The leading response of each of the 42 cells" in lean
    (example,) = re.findall(r"for example <code>--cell '(.+?)=(.+?)'</code>", lean)
    assert any(level_text(one.get(example[0], "")) == example[1] for one in weights.cells.values())


def test_cells_that_are_asked_for_are_shown_whole(
    weights: Report, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(model, "MOST_WHOLE_CELLS", 41)
    asked = html.render(weights, {"workload": "load", "knobs.napi_weight": "60"})
    assert asked.count("Every trial: goodput") == 8
    assert "all of 8 of them" in asked
    with pytest.raises(InputError, match=r"knobs.napi_weight = 3\.") as error:
        html.render(weights, {"knobs.napi_weight": "3"})
    assert "knobs.napi_weight = 1, 2, 8, 60, 200" in str(error.value.do)


def test_a_grid_that_fills_screens_is_a_line(
    weights: Report, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = shown(weights)
    monkeypatch.setattr(terminal, "_MOST_OF_GRID", 7)
    short = " ".join(shown(weights).split())
    said = (
        "goodput of load, Mb/s (virtual), by rate: 8 rows: --all, --html FILE or --format markdown"
    )
    assert said in short and said not in " ".join(whole.split())
    # The smaller one stands, and so does all of it for those who ask.
    assert "goodput of tcp, udp, Mb/s (virtual), by napi weight workload" in short
    assert said not in " ".join(shown(weights, every=True).split())
