"""Result pages, made by `tools/results`: none hides that its emulator is an older one."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from hypertare.machines.image import emulator
from hypertare.report.markdown import CLAIMS_OF
from hypertare.runs.store import Store
from hypertare.study import StudyFile
from hypertare.study import file as builtin
from hypertare.study.file import builtin_names
from tests import commands
from tests.tools import loaded

ROOT = Path(__file__).parents[1]
TOOL = ROOT / "tools" / "results"
TODAY = "0123456789abcdef01234567"
OLDER = "f" * 24


results = loaded("results")


def page(digest: str | None = None, clock: str = "virtual", words: str = "cpus --seed 1") -> str:
    made = f", emulator {digest}" if digest else ""
    return (
        f"# cpus\n\nWhat do CPUs bring?\n\n## How\n\n- emulated machine, {clock} clock, accelerator tcg\n"
        f"- hypertare 0.1.0, commit 1234567{made}, image {'a' * 24}\n- hypertare run {words}\n"
    )


@pytest.mark.parametrize("path", results.pages(), ids=lambda path: path.stem)
def test_a_page_of_an_older_emulator_says_so_in_its_first_lines(path: Path) -> None:
    """If this fails: `tools/results STUDY` makes the page anew, `tools/results --note` writes the note."""
    text = path.read_text(encoding="utf-8")
    assert text == results.noted(text, emulator.content())
    assert path.stem in builtin_names()


@pytest.mark.runs
@pytest.mark.parametrize(
    "path", list(filter(results.is_kept, results.pages())), ids=lambda path: path.stem
)
def test_a_page_says_what_the_run_beside_it_found(path: Path) -> None:
    """If this fails: `tools/results --again` writes the pages in today's words."""
    folder, text = path.with_suffix(""), path.read_text(encoding="utf-8")
    before = {file.name for file in folder.iterdir()}
    document = results.written(folder)
    assert text == results.noted(document.text, emulator.content())
    assert len(document.text.split()) <= 1500
    assert before == {"run.sqlite", *document.charts} == {file.name for file in folder.iterdir()}
    for picture in document.charts:
        assert f"]({path.stem}/{picture})" in text
    with Store.open(folder) as store:
        meta, younger = store.meta, [one for one in store.warnings() if CLAIMS_OF in one]
    assert all(f"- {sentence}" in text for sentence in younger), "claims younger than the trials"
    assert meta.folder == "studies" and "--out" not in meta.argv
    assert str(ROOT).encode() not in (folder / "run.sqlite").read_bytes()


def test_a_run_that_lies_beside_its_page_is_not_lost_when_that_is_made_of_it(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "cpus"
    shutil.copytree(results.FOLDER / "cpus", folder)
    results._keep(folder, folder, {})
    assert [file.name for file in tmp_path.iterdir()] == ["cpus"]
    assert [file.name for file in folder.iterdir()] == ["run.sqlite"]
    with Store.open(folder) as store:
        assert store.meta.study == "cpus"


def test_a_kept_run_is_judged_by_todays_claims_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "cpus"
    shutil.copytree(results.FOLDER / "cpus", folder)
    with Store.open(folder) as store:
        before = store.meta.study_text
    wanted = '[[claims]]\ntext = "It is what it is"'
    mended = re.sub(r'\[\[claims\]\]\ntext = "[^"]*"', wanted, before, count=1)
    monkeypatch.setattr(builtin, "find", lambda name: StudyFile(mended, name))
    results.judge_anew(folder, "1234567")
    results.judge_anew(folder, "89abcde")
    text = results.written(folder).text
    assert "It is what it is" in text and "Claims are those of commit 89abcde" in text
    assert "1234567" not in text
    changed = mended.replace("[design]", "[design]\nthreshold = 0.3", 1)
    monkeypatch.setattr(builtin, "find", lambda name: StudyFile(changed, name))
    with pytest.raises(SystemExit):
        results.judge_anew(folder, "fedcba9")
    assert results.written(folder).text == text


def test_a_command_line_is_kept_without_the_places_of_its_machine() -> None:
    assert results.without_places(["run", "cpus", "--out", "/a/b", "--quick"]) == [
        "run",
        "cpus",
        "--quick",
    ]
    assert results.without_places(["run", "cpus", "--out"]) == ["run", "cpus"]


def test_pages_are_reported_by_their_emulator() -> None:
    assert not results.is_stale(page(TODAY), TODAY)
    assert results.is_stale(page(OLDER), TODAY)
    assert results.is_stale(page(), TODAY), "a page from before digests"
    assert not results.is_stale(page(clock="wall"), TODAY)


def test_a_note_comes_and_goes_with_its_reason() -> None:
    stale = results.noted(page(OLDER, words="cpus --quick --seed 1"), TODAY)
    title, note, rest = stale.split("\n\n", 2)
    assert title == "# cpus" and rest.startswith("What do CPUs bring?")
    assert "older emulator" in note and "`tools/results cpus --quick`" in note
    assert results.noted(stale, TODAY) == stale
    assert results.noted(stale, OLDER) == page(OLDER, words="cpus --quick --seed 1")


def test_the_digest_is_of_all_that_decides_virtual_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "devices.mak").write_text("CONFIG_PCI=y")
    (tmp_path / "01-a.patch").write_text("a")
    one = emulator.Recipe(tmp_path, "gcc 12")
    first, key = one.content, one.key
    other = emulator.Recipe(tmp_path, "gcc 14")
    assert other.content == first and other.key != key
    for change in (
        lambda: (tmp_path / "01-a.patch").write_text("b"),
        lambda: (tmp_path / "02-c.patch").write_text("c"),
        lambda: (tmp_path / "devices.mak").write_text("CONFIG_PCI=n"),
        lambda: monkeypatch.setattr(emulator, "_OPTIONS", ("--disable-tcg",)),
    ):
        before = one.content
        change()
        assert one.content != before


def test_wrong_words_cost_nothing() -> None:
    for words in ([], ["cpus", "--stale"]):
        done = subprocess.run([sys.executable, TOOL, *words], capture_output=True, text=True)
        assert done.returncode == 2
        assert "name one study, or give --stale, --note or --again" in done.stderr


@pytest.mark.runs
def test_stale_pages_are_listed_with_how_long_they_take(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["results", "--stale"])
    monkeypatch.setattr(results, "_output", lambda words: commands.run(*words[3:]).stdout)
    results.main()
    listed = dict(line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines())
    stale = [
        path.stem
        for path in results.pages()
        if results.is_stale(path.read_text(encoding="utf-8"), emulator.content())
    ]
    assert list(listed) == stale
    assert all(re.fullmatch(r"\d+ (to \d+ )?min", took) for took in listed.values())
