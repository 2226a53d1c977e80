"""docs/published.md: every finding of the published studies has an answer, that of today's pages."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from tests.tools import loaded

ROOT = Path(__file__).parents[1]


published = loaded("published")
STUDIES = tomllib.loads(published.ROWS.read_text(encoding="utf-8"))["study"]


def test_the_page_is_that_of_todays_rows_claims_and_results() -> None:
    """If this fails: `tools/published` writes it anew."""
    assert published.PAGE.read_text(encoding="utf-8") == published.written()


def test_every_row_is_asked_or_answered() -> None:
    rows = [row for study in STUDIES for row in study["row"]]
    assert len({row["id"] for row in rows}) == len(rows)
    assert not [row["id"] for row in rows if not (published.asked(row) or row.get("note"))]


def test_every_claim_that_names_a_published_figure_is_in_a_row() -> None:
    named = {one[:2] for study in STUDIES for row in study["row"] for one in published.asked(row)}
    for study in sorted({study for study, _ in named}):
        loaded = tomllib.loads((ROOT / "studies" / f"{study}.toml").read_text(encoding="utf-8"))
        texts = {claim["text"] for claim in loaded["claims"] if "published" in claim["text"]}
        assert not texts - {text for of, text in named if of == study}


def test_a_text_that_stands_twice_is_judged_by_the_worst() -> None:
    page = "| a\\_b | holds | x |\n| a\\_b | undecided | y |\n| c | not judged | z |\n"
    assert published._judged(page) == {"a_b": "undecided", "c": "not judged"}


def test_a_beginning_that_no_claim_has_is_an_error_that_names_it() -> None:
    with pytest.raises(ValueError, match="no claim of cpus begins with 'Five'"):
        published.asked({"claims": ["cpus: Five"]})
