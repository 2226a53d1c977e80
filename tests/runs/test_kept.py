"""Runs by their names: `hypertare runs`, `report last`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hypertare.base import paths
from hypertare.base.errors import InputError
from hypertare.runs import kept
from tests import factory


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two runs here and one in the state directory."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(paths, "kept_runs_dir", lambda: tmp_path / "state")
    small = factory.Script(2)
    factory.write(tmp_path / "hypertare-runs" / "first-look-20261101-120000", small)
    factory.write(
        tmp_path / "hypertare-runs" / "first-look-20261103-120000",
        factory.Script(2, complete=False),
    )
    factory.write(tmp_path / "state" / "weigh-20261102-120000", small)
    return tmp_path


def test_the_last_run_comes_first(home: Path) -> None:
    found = list(kept.runs())
    assert [one.folder.name.rpartition("-")[0][-8:] for one in found] == [
        "20261103",
        "20261102",
        "20261101",
    ]
    assert [one.state for one in found] == ["not ended", "complete", "complete"]
    assert all(one.trials > 0 and one.question for one in found)


def test_a_run_is_found_by_name_by_study_and_as_the_last(home: Path) -> None:
    named = kept.find(Path("weigh-20261102-120000"))
    assert named == home / "state" / "weigh-20261102-120000"
    assert kept.find(Path("weigh")) == named
    assert kept.find(Path("last")).name == kept.find(Path("first-look")).name
    assert kept.find(Path("last")).name == "first-look-20261103-120000"


def test_of_two_in_one_second_the_second_is_the_last(home: Path) -> None:
    second = home / "state" / "weigh-20261102-120000-2"
    factory.write(second, factory.Script(2))
    assert kept.find(Path("weigh")) == second
    assert kept.folders().index(second) == 1


def test_a_path_is_a_path(home: Path) -> None:
    (home / "last").mkdir()
    assert kept.find(Path("last")) == Path("last")
    assert kept.find(Path("nowhere/run")) == Path("nowhere/run")


def test_a_wrong_name_says_where_to_look(home: Path) -> None:
    with pytest.raises(InputError, match="Did you mean 'weigh-20261102-120000'") as caught:
        kept.find(Path("weigh-20261102-120001"))
    assert caught.value.do is not None and "hypertare runs" in caught.value.do


def test_a_damaged_run_is_listed_all_the_same(home: Path) -> None:
    (home / "state" / "weigh-20261102-120000" / "run.sqlite").write_bytes(b"nothing")
    assert [one.state for one in kept.runs()].count("unreadable") == 1


def test_the_command_lists_them(
    home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from hypertare.cli.lists import runs

    monkeypatch.setenv("COLUMNS", "160")
    runs(json=True, every=False)
    listed = json.loads(capsys.readouterr().out)
    assert [one["state"] for one in listed] == ["not ended", "complete", "complete"]
    runs(json=False, every=False)
    out = capsys.readouterr().out
    assert out.index("first-look-20261103") < out.index("weigh-20261102")
