"""The run's file: what goes in comes out, and nothing ever changes."""

from __future__ import annotations

import shutil
import sqlite3
import subprocess
import sys
import textwrap
from contextlib import closing
from pathlib import Path

import pytest

from hypertare.base.errors import InputError
from hypertare.protocol.constants import RUN_FILE
from hypertare.protocol.records import Log
from hypertare.runs.store import Store
from tests import factory


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return factory.write(tmp_path / "run", factory.Script(blocks=3))


def test_everything_comes_back(tmp_path: Path) -> None:
    script = factory.Script(blocks=3)
    expected = [factory.finish(trial, script) for trial in factory.planned(script)]
    directory = factory.write(tmp_path / "run", script)
    with Store.open(directory) as store:
        assert store.trials() == expected
        assert store.meta == factory.meta(script)
        assert [m.what for m in store.milestones()] == ["started", "completed"]
        assert list(store.benches()) == [(0, factory.bench_records(script))]
        assert store.warnings() == list(script.warnings)
        for trial in expected:
            made = factory.records(trial, script)
            assert store.records(trial.planned.id)[: len(made)] == made
        assert store.records(10_000) == []
        assert store.next_trial_id == len(expected)


def test_levels_keep_their_types(tmp_path: Path) -> None:
    cell = {"workload": "build", "cpus": 2, "share": 0.5, "offload": True, "size": 2.0}
    finished = factory.finish(
        factory.PlannedTrial(0, 0, 0, "native", cell), factory.Script(fail=frozenset())
    )
    with Store.create(tmp_path / "run", factory.meta(factory.Script())) as store:
        store.append(finished)
        (back,) = store.trials()
    assert back.planned.cell == cell
    assert [type(level) for level in back.planned.cell.values()] == [str, int, float, bool, float]


@pytest.mark.parametrize("table", ["meta", "trial", "value", "record", "event", "bench"])
def test_no_row_can_be_changed_or_removed(run: Path, table: str) -> None:
    db = sqlite3.connect(run / RUN_FILE)
    column = db.execute(f"SELECT name FROM pragma_table_info('{table}')").fetchone()[0]
    for statement in (
        f"DELETE FROM {table}",
        f"UPDATE {table} SET {column} = {column}",
        f"INSERT OR REPLACE INTO {table} SELECT * FROM {table}",
    ):
        with pytest.raises(sqlite3.IntegrityError, match="append-only"):
            db.execute(statement)


def test_a_trial_enters_once_and_whole(run: Path) -> None:
    with Store.resume(run) as store:
        before = store.trials()
        with pytest.raises(ValueError, match="trial 0 cannot enter"):
            store.append(before[0])
        new = factory.PlannedTrial(store.next_trial_id, 99, 0, "native", {"workload": "build"})
        bad = factory.FinishedTrial(new, "ok", None, 1.0, {"elapsed": float("nan")})
        with pytest.raises(ValueError, match="cannot enter"):
            store.append(bad)
        assert store.trials() == before


def test_resume_goes_on_where_it_stopped(tmp_path: Path) -> None:
    script = factory.Script(blocks=2, complete=False)
    run = factory.write(tmp_path / "run", script)
    with Store.resume(run) as store:
        at = store.next_trial_id
        trial = factory.PlannedTrial(at, 99, 0, "native", {"workload": "build", "cpus": 1})
        store.append(factory.finish(trial, script), [Log(node="sut", level="info", text="é\n\r")])
        store.ended(complete=True)
        assert [m.what for m in store.milestones()] == ["started", "resumed", "completed"]
    with Store.open(run) as store:
        assert store.trials()[-1].planned == trial
        assert store.records(at) == [Log(node="sut", level="info", text="é\n\r")]


def test_the_one_file_is_the_run(run: Path, tmp_path: Path) -> None:
    assert [path.name for path in run.iterdir()] == [RUN_FILE]
    copy = tmp_path / "elsewhere.sqlite"
    shutil.copy(run / RUN_FILE, copy)
    with Store.open(copy) as copied, Store.open(run) as original:
        assert copied.trials() == original.trials()


READER = """
    import sys
    from pathlib import Path
    from hypertare.runs.store import Store
    with Store.open(Path(sys.argv[1])) as store:
        for _ in sys.stdin:
            print(store.count(), flush=True)
"""


class Reader:
    """Another process that has a run open until it is left, and says how many trials it sees."""

    def __init__(self, run: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(READER), str(run)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def sees(self) -> int:
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return int(self.process.stdout.readline())

    def leave(self) -> None:
        self.process.communicate()
        assert self.process.returncode == 0


def names(run: Path) -> list[str]:
    return sorted(path.name for path in run.iterdir())


def test_two_read_while_one_writes(tmp_path: Path) -> None:
    script = factory.Script()
    run = tmp_path / "run"
    with Store.create(run, factory.meta(script)) as writer:
        readers = [Reader(run), Reader(run)]
        for number, trial in enumerate(list(factory.planned(script))[:3], start=1):
            writer.append(factory.finish(trial, script))
            assert [reader.sees() for reader in readers] == [number, number]
        for reader in readers:
            reader.leave()
        assert writer.count() == 3
        writer.ended(complete=False)
    assert names(run) == [RUN_FILE]


def test_whoever_closes_a_run_last_makes_it_one_file(tmp_path: Path) -> None:
    run = tmp_path / "run"
    script = factory.Script()
    with Store.create(run, factory.meta(script)) as writer:
        writer.append(factory.finish(next(factory.planned(script)), script))
        reader = Reader(run)
        assert reader.sees() == 1
    assert names(run) == [RUN_FILE, f"{RUN_FILE}-shm", f"{RUN_FILE}-wal"]
    assert reader.sees() == 1
    reader.leave()
    assert names(run) == [RUN_FILE]


def test_a_copy_of_a_run_that_goes_on_is_a_run(tmp_path: Path) -> None:
    run = tmp_path / "run"
    script = factory.Script()
    with Store.create(run, factory.meta(script)) as writer:
        writer.append(factory.finish(next(factory.planned(script)), script))
        copy = tmp_path / "copy.sqlite"
        with closing(sqlite3.connect(run / RUN_FILE)) as db, closing(sqlite3.connect(copy)) as to:
            db.backup(to)
    with Store.open(copy) as copied:
        assert copied.count() == 1
    assert names(tmp_path) == ["copy.sqlite", "run"]


def test_reading_is_not_writing(run: Path) -> None:
    with Store.open(run) as reader, pytest.raises(ValueError, match="opened for reading"):
        reader.add_event("no")


def test_only_one_writer(run: Path) -> None:
    with (
        Store.resume(run),
        pytest.raises(InputError, match="Another hypertare is writing"),
    ):
        Store.resume(run)
    Store.resume(run).close()


def test_a_directory_with_a_run_is_not_overwritten(run: Path) -> None:
    with pytest.raises(InputError, match="holds a run already") as error:
        Store.create(run, factory.meta(factory.Script()))
    assert "--resume" in str(error.value)
    with Store.open(run) as store:
        assert store.trials()


def test_the_view_in_the_docs_holds_what_counts(run: Path) -> None:
    with Store.open(run) as store:
        expected = sum(len(trial.values) for trial in store.trials() if trial.counts)
    db = sqlite3.connect(run / RUN_FILE)
    assert db.execute("SELECT count(*) FROM measurement").fetchone() == (expected,)
