"""Whatever stands in a study's file, `--dry-run` shows the design or says in a sentence what is wrong."""

from __future__ import annotations

import contextlib
import io
import subprocess
import time
import tomllib
from functools import cache
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hypertare.base.errors import InputError
from hypertare.cli.run import run
from tests import commands
from tests.properties.mutations import (
    CORPUS,
    ODD,
    corpus,
    damaged,
    mutated,
    searched,
    toml,
    toml_value,
)
from tests.properties.studies import ROOT, right_studies, right_trees

LIMIT_S = 5.0
"""Of CPU time, for what takes milliseconds: a study that makes hypertare think for ever is a defect."""

TABLES = ("sut", "bench", "emulated", "knobs", "design", "search", "tune", "walk")
"""Those that a study has once."""

LEAKS = ("validation error", "pydantic", "Traceback", "[type=", "object at 0x")
"""Words of libraries, which say nothing to who wrote the study."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """As a study's folder is: with the files that studies name."""
    place = tmp_path_factory.mktemp("studies")
    for beside in (ROOT / "studies").iterdir():
        if beside.is_dir():
            (place / beside.name).symlink_to(beside)
    # What is loaded at first use is not to count as time that a study takes.
    shown_or_refused(place, right_studies()["first-look"].encode())
    return place


def _refuse_to_start(*argv: object, **_: object) -> None:
    raise AssertionError(f"a dry run started {argv}")


def shown_or_refused(
    folder: Path, content: bytes, assigned: list[str] | None = None, *, quick: bool = False
) -> InputError | None:
    """What is said of a study that is refused."""
    study = folder / "mutated.toml"
    study.write_bytes(content)
    begun = time.process_time()
    refused = None
    try:
        with (
            contextlib.redirect_stdout(io.StringIO()) as shown,
            mock.patch.object(subprocess, "Popen", _refuse_to_start),
        ):
            run(study=str(study), set_=assigned, quick=quick, dry_run=True)
        assert "expected" in shown.getvalue() or "searches" in shown.getvalue()
    except InputError as error:
        refused = error
        assert error.what.strip()
        assert not [leak for leak in LEAKS if leak in str(error)], str(error)
    seconds = time.process_time() - begun
    assert seconds < LIMIT_S, f"{seconds} s"
    return refused


@pytest.mark.parametrize("path", corpus("studies"), ids=lambda path: path.stem)
def test_the_corpus(path: Path, folder: Path) -> None:
    refused = shown_or_refused(folder, path.read_bytes())
    print(refused)


@pytest.mark.parametrize("name", right_studies())
def test_what_they_are_made_from_is_right(name: str, folder: Path) -> None:
    refused = shown_or_refused(folder, right_studies()[name].encode())
    # Of this machine's size, and of nothing else.
    assert refused is None or "CPUs were asked for" in refused.what or "of memory" in refused.what


def test_through_the_command_line(folder: Path) -> None:
    """A few of them: each takes as long as Python takes to start."""
    right = folder / "right.toml"
    right.write_text(right_studies()["documented"])
    for study, status in (
        (right, (0, 2)),
        *(
            (CORPUS / "studies" / f"{name}.toml", (2,))
            for name in ("an-executable", "defaults-of-tune-are-text")
        ),
    ):
        ran = commands.run("run", study, "--dry-run")
        assert ran.returncode in status, ran
        assert "Traceback" not in ran.stderr and "defect" not in ran.stderr


@searched(300)
@given(st.data())
def test_changed_keys_and_values(folder: Path, data: st.DataObject) -> None:
    text = toml(data.draw(mutated(right_trees)))
    shown_or_refused(folder, text.encode("utf-8", "replace"))


@searched(150)
@given(st.data())
def test_damaged_files(folder: Path, data: st.DataObject) -> None:
    text = data.draw(st.sampled_from(list(right_studies().values())))
    shown_or_refused(folder, data.draw(damaged(text.encode())))


@searched(200)
@given(st.data())
def test_assignments_of_the_command_line(folder: Path, data: st.DataObject) -> None:
    """`--set` with what other studies have there, and with what none has."""
    name = data.draw(st.sampled_from(sorted(right_studies())))
    assigned = data.draw(st.lists(assignments(name), min_size=1, max_size=3))
    shown_or_refused(
        folder, right_studies()[name].encode(), assigned, quick=data.draw(st.booleans())
    )


@st.composite
def assignments(draw: Any, name: str) -> str:
    table, key = draw(st.sampled_from(sorted(settings())))
    path = f"{table}.{key}"
    if table == "workloads":
        workloads = tomllib.loads(right_studies()[name])["workloads"]
        path = f"workloads.{draw(st.sampled_from(sorted(workloads)))}.{key}"
    values = settings()[table, key] if draw(st.integers(0, 2)) else odd_values()
    return f"{path}={draw(st.sampled_from(values))}"


@cache
def settings() -> dict[tuple[str, str], list[str]]:
    """What some study sets: by table and key all values as they are written."""
    found: dict[tuple[str, str], list[str]] = {}
    for tree in right_trees():
        tables = [(name, tree.get(name, {})) for name in TABLES]
        tables += [("workloads", workload) for workload in tree["workloads"].values()]
        for name, table in tables:
            for key, value in table.items():
                found.setdefault((name, key), []).append(toml_value(value))
    return found


@cache
def odd_values() -> list[str]:
    return [toml_value(odd) for odd in ODD if odd is not None]
