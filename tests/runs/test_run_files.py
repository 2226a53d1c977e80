"""`docs/run-files.md`: its tables are the file's, and its examples work."""

from __future__ import annotations

import os
import re
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from hypertare.protocol.constants import RUN_APPLICATION, RUN_FILE
from hypertare.runs.store import SCHEMA_VERSION, Meta
from tests import factory

TEXT = (Path(__file__).parents[2] / "docs" / "run-files.md").read_text()


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return factory.write(tmp_path_factory.mktemp("run"), factory.Script())


def test_every_table_and_column_is_described(run: Path) -> None:
    parts = dict(part.split("\n", 1) for part in TEXT.split("\n### ")[1:])
    db = sqlite3.connect(run / RUN_FILE)
    names = [row[0] for row in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    assert [name for name in parts if name != "measurement"] == names
    for table in names:
        columns = [row[0] for row in db.execute(f"SELECT name FROM pragma_table_info('{table}')")]
        rows = [line for line in parts[table].splitlines() if line.startswith("| `")]
        described = [name for row in rows for name in re.findall(r"`(\w+)`", row.split("|")[1])]
        assert described == columns, table
    for key in Meta.model_fields:
        assert f"`{key}`" in parts["meta"]
    view = [row[0] for row in db.execute("SELECT name FROM pragma_table_info('measurement')")]
    assert re.findall(r"`(\w+)`", parts["measurement"].split(" of every")[0]) == view
    assert f"`application_id` {RUN_APPLICATION:#x}" in TEXT
    assert f"version of this layout: {SCHEMA_VERSION}." in TEXT


def test_the_query_works(run: Path) -> None:
    (query,) = re.findall(r"```sql\n(.*?)```", TEXT, re.S)
    rows = sqlite3.connect(run / RUN_FILE).execute(query).fetchall()
    build = [(platform, nic) for workload, platform, nic, *_ in rows if workload == "build"]
    assert build[-1] == ("guest", "e1000")
    assert len(rows) == 4 * len(factory.WORKLOADS)
    assert {row[3] for row in rows} == {"elapsed", "goodput", "rtt_p50"}


def test_the_program_works(run: Path) -> None:
    (program,) = re.findall(r"```python\n(.*?)```", TEXT, re.S)
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=run,
        capture_output=True,
        text=True,
        timeout=60,
        env=os.environ | {"POLARS_FMT_STR_LENGTHS": "80"},
    )
    assert done.returncode == 0, done.stderr
    means = [float(value) for value in re.findall(r"┆ (\d\.\d+)", done.stdout)]
    assert means == pytest.approx([1.9, 1.38], rel=0.05)
