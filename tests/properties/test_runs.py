"""Whatever a run's file holds: it is shown, compared and gone on with, or refused in a sentence."""

from __future__ import annotations

import contextlib
import io
import json
import shutil
import sqlite3
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import typer
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from hypertare.base.errors import HypertareError
from hypertare.cli.compare import compare
from hypertare.cli.report import Format, report
from hypertare.cli.run import run as run_study
from hypertare.protocol.constants import RUN_FILE
from hypertare.study import StudyFile
from tests import commands, factory
from tests.properties.mutations import ODD, corpus, mutated, searched
from tests.properties.studies import right_studies

LIMIT_S = 20.0
"""Of CPU time, for a report that takes a fraction of a second."""

SCRIPT = factory.Script(
    blocks=2,
    variants=("native", "guest virtio-net"),
    cells=({"workload": "build"}, {"workload": "udp"}, {"workload": "rtt"}),
    claims=(
        {"text": "so", "response": "elapsed", "platform": "guest", "op": "below", "value": "50%"},
    ),
)

LOOSE = """
PRAGMA ignore_check_constraints = ON;
PRAGMA foreign_keys = OFF;
DROP VIEW IF EXISTS measurement;
"""
"""Begins every change: what wrote the file need not have been hypertare."""


@pytest.fixture(scope="module")
def right(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made(tmp_path_factory.mktemp("runs") / "right")


def made(folder: Path) -> Path:
    """A run that ended in good order, with a study to go on with, and no rule about its rows."""
    factory.write(folder, SCRIPT)
    study = StudyFile(right_studies()["documented"], "study.toml")
    change(folder, _loosened())
    with sqlite3.connect(folder / RUN_FILE) as db:
        for key, value in (("study_text", study.text), ("settings", study.raw)):
            db.execute("UPDATE meta SET value = ? WHERE key = ?", (json.dumps(value), key))
    db.close()
    return folder


def _loosened() -> str:
    """The same tables without types, keys, checks and triggers."""
    tables = (
        "meta",
        "milestone",
        "bench",
        "trial",
        "value",
        "guest_value",
        "record",
        "event",
        "walk",
    )
    return "".join(
        f"CREATE TABLE copy AS SELECT * FROM {table}; DROP TABLE {table};"
        f"ALTER TABLE copy RENAME TO {table};"
        for table in tables
    )


def change(folder: Path, sql: str) -> None:
    db = sqlite3.connect(folder / RUN_FILE)
    with contextlib.closing(db):
        db.executescript(LOOSE + sql)
        db.commit()


def _quietly(verb: Callable[[], Any]) -> None:
    """A sentence is as good as a success; anything else is a defect."""
    begun = time.process_time()
    with contextlib.redirect_stdout(io.TextIOWrapper(io.BytesIO(), "utf-8")):
        try:
            verb()
        except HypertareError as error:
            assert error.status in (1, 2, 4, 6), error
            assert error.what.strip() and "Traceback" not in str(error)
        except typer.Exit:
            pass
    assert time.process_time() - begun < LIMIT_S


def looked_at(folder: Path, right: Path) -> None:
    _quietly(lambda: report(folder, Format.table, every=True, html=None))
    _quietly(lambda: report(folder, Format.csv, every=True, html=None))
    _quietly(lambda: compare(right, folder, "5%", json=False))
    _quietly(lambda: compare(folder, right, "5%", json=True))
    _quietly(lambda: run_study(resume=True, out=folder, dry_run=True))


@contextlib.contextmanager
def _copy(right: Path) -> Any:
    folder = right.parent / "changed"
    shutil.copytree(right, folder)
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


@pytest.mark.parametrize("path", corpus("runs"), ids=lambda path: path.stem)
def test_the_corpus(path: Path, right: Path) -> None:
    with _copy(right) as folder:
        change(folder, path.read_text())
        looked_at(folder, right)


def test_what_they_are_made_from_is_right(right: Path) -> None:
    for form in Format:
        if form is not Format.parquet:
            with contextlib.redirect_stdout(io.StringIO()):
                report(right, form, every=True, html=None)
    looked_at(right, right)


@pytest.mark.runs
@pytest.mark.parametrize("path", corpus("runs")[:1], ids=lambda path: path.stem)
def test_through_the_command_line(path: Path, right: Path) -> None:
    with _copy(right) as folder:
        change(folder, path.read_text())
        for argv in (
            ("report", folder),
            ("compare", right, folder),
            ("run", "--resume", "--dry-run", "--out", folder),
        ):
            ran = commands.run(*argv)
            assert ran.returncode in (0, 1, 2, 4, 6), ran
            assert "Traceback" not in ran.stderr and "defect" not in ran.stderr, ran.stderr


# --- changes

JSON_COLUMNS = (
    ("meta", "value"),
    ("trial", "cell"),
    ("trial", "console"),
    ("walk", "cell"),
    ("walk", "result"),
)
COLUMNS = {
    "meta": ("key", "value"),
    "milestone": ("at", "what"),
    "bench": ("boot", "lines", "bytes", "zstd"),
    "trial": (
        *("id", "at", "block", "boot", "platform", "cell", "kind", "status", "error", "elapsed_s"),
        *("console", "fingerprint"),
    ),
    "value": ("trial", "response", "value"),
    "guest_value": ("trial", "guest", "response", "value"),
    "record": ("trial", "lines", "bytes", "zstd"),
    "event": ("at", "level", "trial", "text"),
}


@cache
def _meta() -> list[Any]:
    """The values of `meta`, as one tree by key."""
    document = factory.meta(SCRIPT).model_dump(mode="json")
    study = StudyFile(right_studies()["documented"], "study.toml")
    return [
        {**document, "study_text": study.text, "settings": {**document["settings"], **study.raw}}
    ]


def _literal(value: Any) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return str(int(value))
    if isinstance(value, int | float) and abs(value) < 1e300:
        return repr(value)
    if isinstance(value, float):
        return "9e999" if value > 0 else "-9e999"
    text = value if isinstance(value, str) else json.dumps(value)
    return "CAST(x'" + text.encode("utf-8", "replace").hex() + "' AS TEXT)"


@st.composite
def changes(draw: Any) -> str:
    """SQL that makes a run's file wrong."""
    ways = (_of_a_cell, _of_a_cell, _of_meta, _of_meta, _of_records, _of_rows)
    return "".join(draw(st.sampled_from(ways))(draw) for _ in range(draw(st.integers(1, 2))))


def _of_a_cell(draw: Any) -> str:
    table = draw(st.sampled_from(sorted(COLUMNS)))
    column = draw(st.sampled_from(COLUMNS[table]))
    rows = draw(st.sampled_from(("", f" WHERE rowid = (SELECT max(rowid) FROM {table})")))
    value = draw(st.sampled_from(ODD))
    return f"UPDATE {table} SET {column} = {_literal(value)}{rows};\n"


def _of_meta(draw: Any) -> str:
    wrong = draw(mutated(_meta))
    right = _meta()[0]
    changed = {key: value for key, value in wrong.items() if right.get(key, ...) != value}
    gone = [key for key in right if key not in wrong]
    sql = "".join(f"DELETE FROM meta WHERE key = {_literal(key)};\n" for key in [*gone, *changed])
    for key, value in changed.items():
        text = _literal(json.dumps(value))
        sql += f"INSERT INTO meta VALUES ({_literal(key)}, {text});\n"
    return sql


@cache
def _bench_records() -> list[Any]:
    return [[json.loads(record.model_dump_json()) for record in factory.bench_records(SCRIPT)]]


@cache
def _trial_records() -> list[Any]:
    found = [factory.finish(trial, SCRIPT) for trial in factory.planned(SCRIPT)]
    return [
        [json.loads(record.model_dump_json()) for record in factory.records(one, SCRIPT)]
        for one in found
    ]


def _of_records(draw: Any) -> str:
    table, trees = draw(st.sampled_from((("bench", _bench_records), ("record", _trial_records))))
    lines = "".join(f"{json.dumps(one)}\n" for one in draw(mutated(trees))).encode()
    blob = zstandard.compress(lines).hex()
    return f"UPDATE {table} SET bytes = {len(lines)}, zstd = x'{blob}' WHERE rowid % 3 = 0;\n"


def _of_rows(draw: Any) -> str:
    table = draw(st.sampled_from(sorted(COLUMNS)))
    return draw(
        st.sampled_from(
            (
                f"DELETE FROM {table};\n",
                f"DROP TABLE {table};\n",
                f"DELETE FROM {table} WHERE rowid % 2;\n",
                f"INSERT INTO {table} SELECT * FROM {table};\n",
                f"ALTER TABLE {table} RENAME COLUMN {COLUMNS[table][0]} TO other;\n",
                "PRAGMA user_version = 1;\n",
                "PRAGMA user_version = -1;\n",
            )
        )
    )


@searched(20)
@given(changes())
def test_changed_rows(right: Path, sql: str) -> None:
    with _copy(right) as folder:
        with contextlib.suppress(sqlite3.Error):
            # Two changes need not go together.
            change(folder, sql)
        looked_at(folder, right)
