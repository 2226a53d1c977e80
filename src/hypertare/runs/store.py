"""A run's file, `run.sqlite`: everything that was asked for and everything that came back.

Append-only: triggers in the file refuse to change or remove a row. A trial enters in one
transaction, so that whatever ends the writer, the file holds whole trials only and lacks at most
the one in flight. While a run is written, its transactions go to a log beside it, SQLite's WAL:
with a rollback journal each waited for the disk four times. The log is flushed once in
`_FLUSHED_EVERY_S`, so a power cut takes at most the trials of that long; a kill takes none of
them. Whoever closes the run last makes it one file again.

The tables are described in `docs/run-files.md`.
"""

from __future__ import annotations

import fcntl
import json
import mmap
import os
import sqlite3
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from pydantic import Json, TypeAdapter, ValidationError

from hypertare.base import interrupt
from hypertare.base.closed import Closed
from hypertare.base.errors import InputError, MachineError
from hypertare.base.variables import Response
from hypertare.design.trials import FinishedTrial, Kind, PlannedTrial
from hypertare.protocol.constants import MAX_TRIAL_BYTES, RUN_APPLICATION, RUN_FILE
from hypertare.protocol.phase import Phase, parse
from hypertare.protocol.records import Histogram, ProbeValues, Record
from hypertare.runs.machine_state import MachineState
from hypertare.study.published import Point
from hypertare.study.sut import MOST_GUESTS
from hypertare.walk.result import Walked, WalkSummary

if TYPE_CHECKING:
    from zstandard import ZstdCompressor

_T = TypeVar("_T")

SCHEMA_VERSION = 6

# The first versions with the tables `walk`, `guest_value` and `other_program`.
_WITH_WALKS, _WITH_GUESTS, _WITH_OTHERS = 2, 3, 5

_MAGIC = b"SQLite format 3\x00"
_BUSY_TIMEOUT_S = 10.0
_FLUSHED_EVERY_S = 1.0
_APPLICATION = slice(68, 72)
# Where SQLite's header says how the file is written: 2 means that there is, or was, a WAL.
_WRITE_VERSION, _BY_WAL = slice(18, 19), b"\x02"
# Of a trial with sixteen nodes that reported all they may.
_MOST_RECORD_BYTES = 16 * MAX_TRIAL_BYTES

_TABLES = """
CREATE TABLE meta (
    key TEXT PRIMARY KEY,
    value TEXT NOT NULL CHECK (json_valid(value))
) STRICT;

CREATE TABLE milestone (
    id INTEGER PRIMARY KEY,
    at TEXT NOT NULL,
    what TEXT NOT NULL CHECK (what IN ('started', 'resumed', 'stopped', 'completed'))
) STRICT;

CREATE TABLE bench (
    id INTEGER PRIMARY KEY,
    at TEXT NOT NULL,
    boot INTEGER NOT NULL,
    lines INTEGER NOT NULL,
    bytes INTEGER NOT NULL,
    zstd BLOB NOT NULL
) STRICT;

CREATE TABLE trial (
    id INTEGER PRIMARY KEY,
    at TEXT NOT NULL,
    block INTEGER NOT NULL,
    boot INTEGER NOT NULL,
    platform TEXT NOT NULL,
    cell TEXT NOT NULL CHECK (json_valid(cell)),
    kind TEXT NOT NULL CHECK (kind IN ('warmup', 'measured', 'search', 'capacity')),
    status TEXT NOT NULL CHECK (status IN ('ok', 'failed')),
    error TEXT,
    elapsed_s REAL NOT NULL,
    console TEXT NOT NULL CHECK (json_valid(console)),
    fingerprint TEXT
) STRICT;

CREATE TABLE value (
    trial INTEGER NOT NULL REFERENCES trial (id),
    response TEXT NOT NULL,
    value REAL NOT NULL,
    PRIMARY KEY (trial, response)
) STRICT, WITHOUT ROWID;

CREATE TABLE guest_value (
    trial INTEGER NOT NULL REFERENCES trial (id),
    guest INTEGER NOT NULL CHECK (guest >= 1),
    response TEXT NOT NULL,
    value REAL NOT NULL,
    PRIMARY KEY (trial, guest, response)
) STRICT, WITHOUT ROWID;

CREATE TABLE record (
    trial INTEGER PRIMARY KEY REFERENCES trial (id),
    lines INTEGER NOT NULL,
    bytes INTEGER NOT NULL,
    zstd BLOB NOT NULL
) STRICT;

CREATE TABLE event (
    id INTEGER PRIMARY KEY,
    at TEXT NOT NULL,
    level TEXT NOT NULL CHECK (level IN ('info', 'warning')),
    trial INTEGER,
    text TEXT NOT NULL
) STRICT;

CREATE TABLE walk (
    id INTEGER PRIMARY KEY,
    at TEXT NOT NULL,
    cell TEXT NOT NULL CHECK (json_valid(cell)),
    fingerprint TEXT NOT NULL,
    result TEXT NOT NULL CHECK (json_valid(result))
) STRICT;

CREATE TABLE other_program (
    id INTEGER PRIMARY KEY,
    at TEXT NOT NULL,
    block INTEGER NOT NULL,
    name TEXT NOT NULL,
    cpus REAL NOT NULL
) STRICT;

CREATE VIEW measurement AS
    SELECT trial.id AS trial, block, boot, platform, cell ->> 'workload' AS workload, cell,
        response, value
    FROM trial JOIN value ON value.trial = trial.id
    WHERE status = 'ok' AND kind = 'measured';
"""

_APPEND_ONLY = """
CREATE TRIGGER {table}_no_{verb} BEFORE {verb} ON {table}
BEGIN SELECT RAISE(ABORT, '{table} is append-only'); END;
"""

# INSERT OR REPLACE removes the old row without asking the trigger on DELETE.
_NO_REPLACE = """
CREATE TRIGGER {table}_no_replace BEFORE INSERT ON {table}
WHEN EXISTS (SELECT 1 FROM {table} WHERE {same})
BEGIN SELECT RAISE(ABORT, '{table} is append-only'); END;
"""

_KEYS = {
    "meta": ("key",),
    "milestone": ("id",),
    "bench": ("id",),
    "trial": ("id",),
    "value": ("trial", "response"),
    "guest_value": ("trial", "guest", "response"),
    "record": ("trial",),
    "event": ("id",),
    "walk": ("id",),
    "other_program": ("id",),
}

INTERRUPTED = " was interrupted; `"
"""In the warning of an interrupted run, which one that went on and is complete need not have."""


class Meta(Closed):
    """What a run was asked to do, and where; fixed when it starts.

    `study_text` is the study file as it was read, `settings` what it came to with the command
    line's changes, `folder` what its paths start from, `argv` the command that started the run.
    `platforms` is the order of display, `nodes` the platform of each node under test. `responses`
    and `headline`, the one that leads, are by workload. `threshold` is the least cost that
    matters, a share. `published` are others' figures. `hosts` are those of a run that has several, in
    the order of their turns; the first is `machine`.
    """

    hypertare: str
    study: str
    question: str
    study_text: str
    settings: dict[str, Any]
    folder: str
    argv: tuple[str, ...]
    seed: int
    machine: MachineState
    clock: Literal["wall", "virtual"]
    accelerator: str | None
    versions: dict[str, str]
    platforms: tuple[str, ...]
    nodes: dict[str, str] = {}
    baseline: str
    responses: dict[str, tuple[Response, ...]]
    headline: dict[str, str]
    threshold: float
    confidence: float = 0.95
    published: tuple[Point, ...] = ()
    hosts: tuple[MachineState, ...] = ()


@dataclass(frozen=True)
class Milestone:
    at: datetime
    what: Literal["started", "resumed", "stopped", "completed"]


@dataclass(frozen=True)
class OtherProgram:
    """One of the busiest programs outside of this run, by its name, and how many CPUs' time it had while a
    block was measured; a name stands for all processes that have it.
    """

    block: int
    name: str
    cpus: float


def is_run(folder: Path) -> bool:
    """Whether a directory is that of a run: by its file, which SQLite's header says is one of ours. As with
    `Store.open`, whoever writes the run must not ask.
    """
    path = folder / RUN_FILE
    try:
        if not path.is_file():
            return False
        with path.open("rb") as file:
            head = file.read(_APPLICATION.stop)
    except OSError:
        return False
    return head.startswith(_MAGIC) and head[_APPLICATION] == RUN_APPLICATION.to_bytes(4)


class Store:
    """One run's file. Use `create`, `open` or `resume`; close it, or use it in a `with`."""

    def __init__(
        self,
        path: Path,
        db: sqlite3.Connection,
        lock: int | None = None,
        *,
        settles: bool,
        flushed_every_s: float = 0.0,
    ) -> None:
        self.path = path
        self._db = db
        self._lock = lock
        self._settles = settles
        self._flushed_every_s = flushed_every_s
        self._flushed = -flushed_every_s
        self._flushes: bool | None = None

    # --- opening

    @classmethod
    def create(cls, path: Path, meta: Meta) -> Store:
        """Starts a run's file; `path` is the file or the run directory, which is made if needed.

        Raises:
            InputError: there is a run already, or another process writes there.
            MachineError: the place cannot be written.
        """
        path = _file(path)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise _no_directory(path.parent, str(error.strerror)) from error
        with _undone(_lock(path), os.close) as lock:
            _refuse_taken(path)
            with _sentences(path), _undone(_connect(path, "rwc"), sqlite3.Connection.close) as db:
                _create_tables(db, meta)
                every_s = _begin_log(path, db)
        interrupt.keep()
        return cls(path, db, lock, settles=True, flushed_every_s=every_s)

    @staticmethod
    def check_vacant(path: Path) -> None:
        """Whether `create` has a chance there; makes nothing, so that it can be asked first.

        Raises:
            InputError: there is a run already.
            MachineError: the place cannot be written.
        """
        path = _file(path)
        _refuse_taken(path)
        nearest = next(place for place in path.absolute().parents if place.exists())
        if not nearest.is_dir():
            raise _no_directory(path.parent, f"{nearest} is no directory")
        if not os.access(nearest, os.W_OK | os.X_OK):
            raise _no_directory(path.parent, f"{nearest} may not be written")

    @classmethod
    def open(cls, path: Path) -> Store:
        """Opens a run for reading, also while another process writes it. The one that does must not: to
        look at the file would drop its locks.

        Raises:
            InputError: there is no run, or the file is damaged, foreign, or of a newer version.
        """
        path = _existing(path)
        settles = _is_unsettled(path)
        mode: Literal["rw", "ro"] = "rw" if settles else "ro"
        with _sentences(path), _undone(_connect(path, mode), sqlite3.Connection.close) as db:
            if settles:
                _settle(db)
            db.execute("PRAGMA query_only = ON")
            _check(path, db)
        return cls(path, db, settles=settles)

    @classmethod
    def resume(cls, path: Path) -> Store:
        """Opens a run to go on with it.

        Raises:
            InputError: as `open`, or another process is writing to it.
            MachineError: it cannot be written.
        """
        path = _existing(path)
        with (
            _undone(_lock(path), os.close) as lock,
            _sentences(path),
            _undone(_connect(path, "rw"), sqlite3.Connection.close) as db,
        ):
            _check(path, db)
            every_s = _begin_log(path, db)
            with _transaction(db):
                _add_milestone(db, "resumed")
                # The tables of the layout before are today's, and its new records are of today's.
                (version,) = db.execute("PRAGMA user_version").fetchone()
                if version == SCHEMA_VERSION - 1:
                    db.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
        interrupt.keep()
        return cls(path, db, lock, settles=True, flushed_every_s=every_s)

    def close(self) -> None:
        if self._settles:
            _settle(self._db)
        self._db.close()
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # --- writing

    def append(self, finished: FinishedTrial, records: Sequence[Record] = ()) -> None:
        """Adds a trial with its values and raw records, all or nothing. When it returns, no kill can take
        it away; a power cut can, for `_FLUSHED_EVERY_S` at most.

        Raises:
            MachineError: it cannot be written, for example because the disk is full.
            ValueError: there is such a trial already, or a value is not finite.
        """
        planned = finished.planned
        row = (
            planned.id,
            _now(),
            planned.block,
            planned.boot,
            planned.platform,
            _dump(planned.cell),
            planned.kind,
            finished.status,
            finished.error,
            finished.elapsed_s,
            _dump(finished.console),
            finished.fingerprint,
        )
        values = [(planned.id, name, float(value)) for name, value in finished.values.items()]
        of_guests = [
            (planned.id, number, name, float(value))
            for number, one in enumerate(finished.guests, start=1)
            for name, value in one.items()
        ]
        packed = self._packed(records)
        try:
            with self._writing() as db:
                db.execute("INSERT INTO trial VALUES (?,?,?,?,?,?,?,?,?,?,?,?)", row)
                db.executemany("INSERT INTO value VALUES (?,?,?)", values)
                if of_guests:
                    db.executemany("INSERT INTO guest_value VALUES (?,?,?,?)", of_guests)
                db.execute("INSERT INTO record VALUES (?,?,?,?)", (planned.id, *packed))
        except sqlite3.IntegrityError as error:
            raise ValueError(f"trial {planned.id} cannot enter {self.path}: {error}") from error

    def add_bench(self, boot: int, records: Sequence[Record]) -> None:
        """Adds what making or removing a boot's bench reported."""
        with self._writing() as db:
            row = (None, _now(), boot, *self._packed(records))
            db.execute("INSERT INTO bench VALUES (?,?,?,?,?,?)", row)

    def add_event(self, text: str) -> None:
        with self._writing() as db:
            row = (None, _now(), "warning", None, text)
            db.execute("INSERT INTO event VALUES (?,?,?,?,?)", row)

    def add_walk(self, walked: Walked, fingerprint: str) -> None:
        """Adds what the model of page walks said of a workload."""
        result = walked.result.model_dump_json(round_trip=True)
        with self._writing() as db:
            row = (None, _now(), _dump(walked.cell), fingerprint, result)
            db.execute("INSERT INTO walk VALUES (?,?,?,?,?)", row)

    def add_other_programs(self, others: Sequence[OtherProgram]) -> None:
        """Notes them, but for runs that an older hypertare began: their files have no place for them."""
        if self._version < _WITH_OTHERS:
            return
        rows = [(None, _now(), other.block, other.name, other.cpus) for other in others]
        with self._writing() as db:
            db.executemany("INSERT INTO other_program VALUES (?,?,?,?,?)", rows)

    def ended(self, complete: bool) -> None:
        """Notes the run's end. `complete` says that nothing planned is missing."""
        with self._writing() as db:
            _add_milestone(db, "completed" if complete else "stopped")

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        if self._lock is None:
            raise ValueError(f"{self.path} was opened for reading")
        with _sentences(self.path):
            # One that waits for the disk takes along all before it.
            now = time.monotonic()
            due = now - self._flushed >= self._flushed_every_s
            if due is not self._flushes:
                self._db.execute(f"PRAGMA synchronous = {'FULL' if due else 'NORMAL'}")
                self._flushes = due
            if due:
                self._flushed = now
            with _transaction(self._db):
                yield self._db

    @cached_property
    def _compressor(self) -> ZstdCompressor:
        """One for all records: it takes longer to make than to use."""
        import zstandard

        return zstandard.ZstdCompressor(level=6)

    def _packed(self, records: Sequence[Record]) -> tuple[int, int, bytes]:
        """Records as lines, compressed: count, bytes before, bytes after."""
        lines = "".join(f"{record.model_dump_json()}\n" for record in records).encode()
        return len(records), len(lines), self._compressor.compress(lines)

    # --- reading

    @property
    def _version(self) -> int:
        return int(self._rows("PRAGMA user_version")[0][0])

    @property
    def next_trial_id(self) -> int:
        return int(self._rows("SELECT coalesce(max(id) + 1, 0) FROM trial")[0][0])

    @property
    def meta(self) -> Meta:
        rows = self._rows("SELECT key, value FROM meta")
        with _readable(self.path):
            return Meta.model_validate({key: json.loads(value) for key, value in rows})

    def milestones(self) -> list[Milestone]:
        rows = self._rows("SELECT at, what FROM milestone ORDER BY id")
        if not rows:
            raise _damaged(self.path, "it does not say when it was started")
        with _readable(self.path):
            return [Milestone(datetime.fromisoformat(at), what) for at, what in rows]

    def benches(self) -> Iterator[tuple[int, list[Record]]]:
        """Boots with the records of their benches, as they were made and removed."""
        for boot, size, blob in self._rows("SELECT boot, bytes, zstd FROM bench ORDER BY id"):
            with _readable(self.path):
                yield boot, _records(size, blob)

    def count(self) -> int:
        """How many trials there are."""
        return int(self._rows("SELECT count(*) FROM trial")[0][0])

    def trials(self) -> list[FinishedTrial]:
        """Every trial, in the order in which they ended."""
        values: dict[int, dict[str, float]] = {}
        for trial, response, value in self._rows("SELECT trial, response, value FROM value"):
            values.setdefault(trial, {})[response] = value
        guests: dict[int, dict[int, dict[str, float]]] = {}
        query = "SELECT trial, guest, response, value FROM guest_value"
        for trial, guest, response, value in (
            self._rows(query) if self._version >= _WITH_GUESTS else ()
        ):
            guests.setdefault(trial, {}).setdefault(guest, {})[response] = value
        rows = self._rows(
            "SELECT id, block, boot, platform, cell, kind, status, error, elapsed_s, console, fingerprint "
            "FROM trial ORDER BY id"
        )
        with _readable(self.path):
            return [_finished(row, values.get(row[0], {}), guests.get(row[0], {})) for row in rows]

    def records(self, trial: int) -> list[Record]:
        """The records of a trial as they came; empty when there is no such trial."""
        rows = self._rows("SELECT bytes, zstd FROM record WHERE trial = ?", trial)
        with _readable(self.path):
            return [record for size, blob in rows for record in _records(size, blob)]

    def warnings(self) -> list[str]:
        """What a person should know, in the order in which it came up."""
        rows = self._rows("SELECT text FROM event WHERE level = 'warning' ORDER BY id")
        return [text for (text,) in rows]

    def walks(self) -> list[Walked]:
        """What the model of page walks said, one a workload with levels of its own."""
        if self._version < _WITH_WALKS:
            return []
        rows = self._rows("SELECT cell, result FROM walk ORDER BY id")
        with _readable(self.path):
            return [
                Walked(json.loads(cell), WalkSummary.model_validate_json(result))
                for cell, result in rows
            ]

    def other_programs(self) -> list[OtherProgram]:
        """What else was busy on this machine, by block, in the order in which it was seen."""
        if self._version < _WITH_OTHERS:
            return []
        rows = self._rows("SELECT block, name, cpus FROM other_program ORDER BY id")
        with _readable(self.path):
            return [OtherProgram(*_OTHER.validate_python(row)) for row in rows]

    def readings(self, probe: str) -> dict[int, list[ProbeValues]]:
        """By trial, what a probe reported."""
        found = self._records_with(f'"probe":"{probe}"')
        return {
            trial: [one for one in records if isinstance(one, ProbeValues)]
            for trial, records in found
        }

    def histograms(self, name: str) -> dict[int, list[Histogram]]:
        """By trial, what tasks reported under this name."""
        found: dict[int, list[Histogram]] = {}
        for trial, records in self._records_with(f'"{name}":{{'):
            results = Phase.of(records).results.values()
            found[trial] = [one.histograms[name] for one in results if name in one.histograms]
        return found

    def _records_with(self, text: str) -> Iterator[tuple[int, list[Record]]]:
        """Yields, trial by trial, the records whose line contains a text.

        Other records are not parsed. Rows are read one by one, since all of them may not fit into memory.
        """
        mark = text.encode()
        with _sentences(self.path):
            for trial, size, blob in self._db.execute("SELECT trial, bytes, zstd FROM record"):
                with _readable(self.path):
                    found = _records(size, blob, mark)
                yield trial, found

    def _rows(self, query: str, *arguments: object) -> list[Any]:
        with _sentences(self.path):
            return self._db.execute(query, arguments).fetchall()


# --- the file


def _file(path: Path) -> Path:
    return path if path.name == RUN_FILE else path / RUN_FILE


def _existing(path: Path) -> Path:
    try:
        found = path / RUN_FILE if path.is_dir() else path
        with found.open("rb") as file:
            head = file.read(len(_MAGIC))
    except (FileNotFoundError, NotADirectoryError):
        raise InputError(
            f"There is no run at {path}.", f"Give a run directory, or its {RUN_FILE}."
        ) from None
    except OSError as error:
        raise InputError(
            f"{path} cannot be read: {error.strerror}.", "Check its permissions."
        ) from error
    if not head:
        raise InputError(
            f"{found} is empty: the run was ended before it had begun.", "Start it anew."
        )
    if head != _MAGIC:
        raise _foreign(found)
    return found


def _no_directory(directory: Path, why: str) -> MachineError:
    return MachineError(
        f"The run directory {directory} cannot be made: {why}.", "Give another place with `--out`."
    )


def _refuse_taken(path: Path) -> None:
    if path.exists() and path.stat().st_size > 0:
        raise InputError(
            f"{path.parent} holds a run already.",
            f"Continue it with `--resume --out {path.parent}`, or give another "
            "directory with `--out`.",
        )


def _lock(path: Path) -> int:
    """Takes the run directory for this process; the kernel lets go of it when the process ends.

    The directory is locked, not the file: closing a descriptor of the file would drop SQLite's
    own locks on it.
    """
    directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(directory, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(directory)
        raise InputError(
            f"Another hypertare is writing to {path.parent}.",
            "Wait until it has ended, or give another directory with `--out`.",
        ) from None
    except OSError as error:
        os.close(directory)
        raise MachineError(
            f"{path.parent} cannot be locked: {error.strerror}.",
            "Put the run on a local file system with `--out`.",
        ) from error
    return directory


@contextmanager
def _undone(made: _T, undo: Callable[[_T], None]) -> Iterator[_T]:
    """Lets go of the lock, or closes the file, when opening fails."""
    try:
        yield made
    except BaseException:
        undo(made)
        raise


def _is_unsettled(path: Path) -> bool:
    """Whether the run is more than its one file, because it goes on or its writer was killed, and may be
    made one file again, which means writing.

    Otherwise a reader stays a reader, so that a report of a run in a read-only place works.
    """
    with path.open("rb") as file:
        head = file.read(_WRITE_VERSION.stop)
    half_done = head[_WRITE_VERSION] == _BY_WAL or path.with_name(path.name + "-journal").exists()
    return half_done and os.access(path, os.W_OK) and os.access(path.parent, os.W_OK)


def _settle(db: sqlite3.Connection) -> None:
    """Puts what the log holds into the one file, unless somebody else has the run open, or there is no
    room: nothing is lost then, and whoever opens or closes it next tries again.
    """
    with suppress(sqlite3.Error):
        db.execute("PRAGMA query_only = OFF")
        db.execute("PRAGMA busy_timeout = 0")
        db.execute("PRAGMA journal_mode = DELETE")
    db.execute(f"PRAGMA busy_timeout = {round(1000 * _BUSY_TIMEOUT_S)}")


def _begin_log(path: Path, db: sqlite3.Connection) -> float:
    """Says how often what is written must be flushed, in seconds: without a log always, because the
    rollback journal then is of use only if it came to the disk first.
    """
    # A log needs files that can be memory which processes share: some network file systems have none, and
    # SQLite sees that only when it is too late.
    try:
        with tempfile.TemporaryFile(dir=path.parent) as file:
            file.truncate(mmap.PAGESIZE)
            mmap.mmap(file.fileno(), mmap.PAGESIZE).close()
    except OSError:
        return 0.0
    (mode,) = db.execute("PRAGMA journal_mode = WAL").fetchone()
    return _FLUSHED_EVERY_S if mode == "wal" else 0.0


def _connect(path: Path, mode: Literal["ro", "rw", "rwc"]) -> sqlite3.Connection:
    db = sqlite3.connect(
        f"{path.absolute().as_uri()}?mode={mode}",
        uri=True,
        timeout=_BUSY_TIMEOUT_S,
        isolation_level=None,
    )
    db.execute("PRAGMA foreign_keys = ON")
    db.execute("PRAGMA synchronous = FULL")
    return db


def _create_tables(db: sqlite3.Connection, meta: Meta) -> None:
    with _transaction(db):
        db.execute(f"PRAGMA application_id = {RUN_APPLICATION}")
        db.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
        for statement in _TABLES.split(";\n\n"):
            db.execute(statement)
        for table, keys in _KEYS.items():
            same = " AND ".join(f"{key} = NEW.{key}" for key in keys)
            db.execute(_NO_REPLACE.format(table=table, same=same))
            for verb in ("UPDATE", "DELETE"):
                db.execute(_APPEND_ONLY.format(table=table, verb=verb))
        rows = [(key, _dump(value)) for key, value in meta.model_dump(mode="json").items()]
        db.executemany("INSERT INTO meta VALUES (?,?)", rows)
        _add_milestone(db, "started")


def _check(path: Path, db: sqlite3.Connection) -> None:
    (application,) = db.execute("PRAGMA application_id").fetchone()
    (version,) = db.execute("PRAGMA user_version").fetchone()
    if application != RUN_APPLICATION:
        raise _foreign(path)
    if version > SCHEMA_VERSION:
        raise InputError(
            f"{path} was written by a newer hypertare (format {version}; this one reads up to "
            f"{SCHEMA_VERSION}).",
            "Update hypertare to read it.",
        )
    (verdict,) = db.execute("PRAGMA quick_check(1)").fetchone()
    if verdict != "ok":
        raise _damaged(path, verdict)


@contextmanager
def _transaction(db: sqlite3.Connection) -> Iterator[None]:
    db.execute("BEGIN IMMEDIATE")
    try:
        yield
        db.execute("COMMIT")
    except BaseException:
        # SQLite has rolled back by itself after a full disk.
        if db.in_transaction:
            db.execute("ROLLBACK")
        raise


def _add_milestone(db: sqlite3.Connection, what: str) -> None:
    db.execute("INSERT INTO milestone VALUES (NULL,?,?)", (_now(), what))


# --- rows


_Row = tuple[
    int,
    int,
    int,
    str,
    Json[dict[str, Any]],
    Kind,
    Literal["ok", "failed"],
    str | None,
    float,
    Json[tuple[str, ...]],
    str | None,
]
_ROW: TypeAdapter[_Row] = TypeAdapter(_Row)
_OTHER: TypeAdapter[tuple[int, str, float]] = TypeAdapter(tuple[int, str, float])
_VALUES: TypeAdapter[dict[str, float]] = TypeAdapter(dict[str, float])


def _finished(
    row: Sequence[Any], values: dict[str, float], guests: dict[int, dict[str, float]]
) -> FinishedTrial:
    id_, block, boot, platform, cell, kind, status, error, elapsed_s, lines, fingerprint = (
        _ROW.validate_python(row)
    )
    if not isinstance(cell.get("workload"), str):
        raise ValueError(f"trial {id_} is of no workload")
    planned = PlannedTrial(id_, block, boot, platform, cell, kind)
    values = _VALUES.validate_python(values)
    guests = {number: _VALUES.validate_python(each) for number, each in guests.items()}
    if max(guests, default=0) > MOST_GUESTS:
        raise ValueError(f"trial {id_} has values of guest {max(guests)}")
    each = tuple(guests.get(number, {}) for number in range(1, max(guests, default=0) + 1))
    return FinishedTrial(planned, status, error, elapsed_s, values, lines, fingerprint, each)


def _dump(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def _records(size: int, blob: bytes, mark: bytes = b"") -> list[Record]:
    """Those of a row in whose line the mark stands, as this version of the layout has them: before the
    sixth the CPUs of what moves a guest's packets were those of a `sidecore`.
    """
    import zstandard

    if size > _MOST_RECORD_BYTES:
        raise ValueError(f"records of {size} bytes")
    # Bounded by what the row claims, so that a crafted file cannot fill the memory.
    with zstandard.ZstdDecompressor().stream_reader(blob) as reader:
        try:
            lines = reader.read(size + 1)
        except zstandard.ZstdError as error:
            raise ValueError(str(error)) from error
    if len(lines) != size:
        raise ValueError(f"records of {len(lines)} bytes in place of {size}")
    return [
        parse(line.replace(b'"sidecore":', b'"datapath_cpus":'))
        for line in lines.splitlines()
        if mark in line
    ]


# --- sentences


@contextmanager
def _sentences(path: Path) -> Iterator[None]:
    """Turns SQLite's failures into what happened and what to do."""
    try:
        yield
    except (sqlite3.IntegrityError, sqlite3.ProgrammingError):
        # A wrong use of SQLite is our defect, and says nothing of the file.
        raise
    except sqlite3.Error as error:
        # The low byte is the kind of failure, the rest its detail.
        kind = getattr(error, "sqlite_errorcode", 0) & 0xFF
        if kind == sqlite3.SQLITE_FULL:
            raise MachineError(
                f"The disk is full: {path} cannot grow. Every trial before this one is in it.",
                "Make room, then continue with `hypertare run --resume`.",
            ) from error
        if kind == sqlite3.SQLITE_IOERR:
            raise MachineError(
                f"{path} cannot be read or written ({error}): the disk fails, or a limit on the size "
                "of files or a quota is reached. Every trial before this one is in it.",
                "Look at `df`, `ulimit -f` and `dmesg`, then continue with `hypertare run --resume`.",
            ) from error
        if kind == sqlite3.SQLITE_BUSY:
            raise MachineError(
                f"Another program has kept {path} locked for {_BUSY_TIMEOUT_S:.0f} s.",
                "Close what has it open (`fuser -v` names it).",
            ) from error
        if kind in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM):
            raise MachineError(
                f"{path} cannot be written, nor a journal beside it ({error}).",
                "Check the permissions of the directory, or give another one with `--out`; a run in "
                "a read-only place can be copied elsewhere first.",
            ) from error
        raise _damaged(path, str(error)) from error
    except UnicodeDecodeError as error:
        # SQLite quotes the damage in its message; Python then cannot read the message.
        raise _damaged(path, "text in it is no UTF-8") from error


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    """For what stands inside the rows: it may have been written by anyone."""
    try:
        yield
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise _damaged(path, f"{where}: {first['msg']}") from error
    except (ValueError, TypeError, KeyError) as error:
        raise _damaged(path, str(error)) from error


def _damaged(path: Path, why: str) -> InputError:
    return InputError(
        f"{path} is damaged: {why}.",
        "Take another copy of it; `sqlite3 FILE .recover` may save what is left.",
    )


def _foreign(path: Path) -> InputError:
    return InputError(
        f"{path} is not a run of hypertare.", f"Give a run directory, or its {RUN_FILE}."
    )
