"""Every key of a study file is documented, examples are right, and links between pages lead somewhere."""

from __future__ import annotations

import re
import subprocess
import tomllib
from pathlib import Path

import pytest

from hypertare.study import StudyFile
from tests.study_files import PAGE, TABLES, renewed, section

ROOT = Path(__file__).parents[1]
PAGES = sorted(
    [
        ROOT / "README.md",
        ROOT / "CHANGELOG.md",
        ROOT / "CONTRIBUTING.md",
        *(ROOT / "docs").glob("*.md"),
    ]
)
TEXT = PAGE.read_text(encoding="utf-8")


def test_the_tables_are_as_the_code_has_them() -> None:
    """`python -m tests.study_files` writes them anew."""
    assert renewed(TEXT) == TEXT


@pytest.mark.parametrize("name", sorted(TABLES - {"workloads", "published", "claims", "plots"}))
def test_every_table_has_its_section(name: str) -> None:
    assert section(TEXT, f"`[{name}]`")[1].strip()


def test_the_examples_are_valid() -> None:
    blocks = re.findall(r"```toml\n(.*?)```", TEXT, re.DOTALL)
    assert len(blocks) >= 2
    recipes = [block for block in blocks if block.startswith("name = ")]
    assert len(recipes) >= 4
    for recipe in recipes:
        StudyFile(recipe, PAGE.name).study()
    whole = recipes[0]
    for block in blocks:
        if block not in recipes:
            assert tomllib.loads(block)
            whole += block
    assert StudyFile(whole, PAGE.name).study().claims


def anchor(heading: str) -> str:
    """A heading's name in a link, as GitHub makes it."""
    kept = re.sub(r"[^\w\- ]", "", heading.strip().lower())
    return kept.replace(" ", "-")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for link in re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8")):
        if "://" in link:
            continue
        name, _, part = link.partition("#")
        target = page.parent / name if name else page
        assert target.exists(), f"{page.name}: {link}"
        if part:
            headings = re.findall(r"^#+ (.*)$", target.read_text(encoding="utf-8"), re.MULTILINE)
            assert part in map(anchor, headings), f"{page.name}: {link}"


def test_the_index_names_every_page() -> None:
    index = (ROOT / "docs" / "README.md").read_text(encoding="utf-8")
    for page in (ROOT / "docs").glob("*.md"):
        assert page.name == "README.md" or f"]({page.name})" in index


def test_what_is_said_to_be_run_is_run_by_a_test_that_is_there() -> None:
    rows = [
        line.split("|")[1:-1] for line in (ROOT / "docs" / "support.md").read_text().splitlines()
    ]
    cells = [row[-1] for row in rows if len(row) == 5 and row[-1].strip() not in ("test", "---")]
    named = [re.findall(r"`([\w/.-]+)`", cell) for cell in cells]
    assert len(cells) > 15 and all(named)
    for path in (path for paths in named for path in paths):
        folder = "" if "/" in path else "tests/integration/"
        assert (ROOT / f"{folder}{path}").exists(), path


def _git(*words: str) -> str:
    done = subprocess.run(["git", "-C", str(ROOT), *words], capture_output=True, text=True)
    return done.stdout.strip() if done.returncode == 0 else ""


_HASH = re.compile(r"\b(?=\d*[a-f])[0-9a-f]{7,12}\b|\b[0-9a-f]{40}\b|(?<=commit )[0-9a-f]{7,40}\b")


def test_every_commit_that_a_page_cites_is_in_the_history() -> None:
    """Whoever wants to see what was measured, finds it. Digests of other things are longer."""
    if _git("rev-parse", "--is-shallow-repository") != "false" or _git("show-prefix"):
        pytest.skip("no git checkout with its whole history: cited commits were not looked for")
    history = _git("rev-list", "HEAD").splitlines()
    cited = [
        (page.relative_to(ROOT), commit)
        for page in (*PAGES, *(ROOT / "docs" / "results").glob("*.md"))
        for commit in _HASH.findall(page.read_text(encoding="utf-8"))
    ]
    assert len(cited) > 20
    unknown = [one for one in cited if not any(known.startswith(one[1]) for known in history)]
    assert unknown == []


def test_the_first_study_is_one() -> None:
    text = (ROOT / "docs" / "first-study.md").read_text()
    parts = re.findall(r"```toml\n(.*?)```", text, re.DOTALL)
    made = StudyFile("\n".join(parts), "polls").study()
    assert (len(parts), len(made.claims), made.name) == (2, 1, "polls")
