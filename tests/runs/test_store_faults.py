"""The run's file when things go wrong: killed writers, full disks, damaged and foreign files."""

from __future__ import annotations

import errno
import mmap
import os
import random
import resource
import signal
import sqlite3
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from hypertare.base.errors import InputError, MachineError
from hypertare.protocol.constants import RUN_FILE
from hypertare.runs.store import SCHEMA_VERSION, Store
from tests import factory

ROOT = Path(__file__).parents[2]
READ_ONLY = 'mount --bind "$1" "$1" && mount -o remount,ro,bind "$1" && exec "$2" -c "$3" "$1"'

WRITER = """
    import sys
    from pathlib import Path
    from hypertare.base.errors import HypertareError
    from hypertare.runs.store import Store
    from tests import factory

    script = factory.Script(blocks=10_000)
    directory = Path(sys.argv[1])
    store = (Store.resume(directory) if (directory / "run.sqlite").exists()
             else Store.create(directory, factory.meta(script)))
    print("ready", flush=True)
    try:
        for trial in factory.planned(script):
            if trial.id >= store.next_trial_id:
                finished = factory.finish(trial, script)
                store.append(finished, factory.records(finished, script))
                print(trial.id, flush=True)
    except HypertareError as error:
        print(f"{error}", file=sys.stderr)
        sys.exit(error.status)
"""


def _writer(directory: Path, **options: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(WRITER), str(directory)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **options,  # type: ignore[call-overload]
    )


def _in_mount_namespace(script: str, place: Path, program: str) -> list[str]:
    """A command whose mounts go away with it, whatever happens."""
    return ["unshare", "--mount", "sh", "-c", script, "sh", str(place), sys.executable, program]


def _whole(directory: Path) -> int:
    """Checks that every trial is there with all its values and records; says how many there are."""
    script = factory.Script(blocks=10_000)
    with Store.open(directory) as store:
        trials = store.trials()
        for number, (found, trial) in enumerate(zip(trials, factory.planned(script), strict=False)):
            assert found == factory.finish(trial, script)
            # Records are slow to make: every seventh trial stands for all, and the last one.
            if number % 7 == 0 or number == len(trials) - 1:
                assert store.records(number) == factory.records(found, script)
    return len(trials)


@pytest.mark.runs
def test_killed_at_any_moment_the_file_holds_whole_trials(tmp_path: Path) -> None:
    directory = tmp_path / "run"
    chance = random.Random(1)
    reported = 0
    for _ in range(12):
        with _writer(directory) as writer:
            assert writer.stdout is not None
            assert writer.stdout.readline() == "ready\n"
            time.sleep(chance.uniform(0.0, 0.15))
            writer.send_signal(signal.SIGKILL)
            lines = writer.stdout.read().splitlines()
        whole = _whole(directory)
        assert [path.name for path in directory.iterdir()] == [RUN_FILE]
        # What was asked to be written is there, and at most the trial in flight is beyond it.
        reported = max([reported, *(int(line) + 1 for line in lines if line.isdigit())])
        assert reported <= whole <= reported + 1
        reported = whole
    assert reported > 20


def _killed(directory: Path) -> int:
    """A run whose writer was killed; how many trials it had notified of."""
    with _writer(directory) as writer:
        assert writer.stdout is not None
        lines = [writer.stdout.readline() for _ in range(6)]
        writer.send_signal(signal.SIGKILL)
        lines += writer.stdout.read().splitlines()
    return len(lines) - 1


def test_a_killed_run_goes_on(tmp_path: Path) -> None:
    directory = tmp_path / "run"
    reported = _killed(directory)
    with Store.resume(directory) as store:
        assert reported <= store.next_trial_id <= reported + 1
        assert [milestone.what for milestone in store.milestones()] == ["started", "resumed"]
    assert [path.name for path in directory.iterdir()] == [RUN_FILE]


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting read-only needs root")
def test_a_killed_run_in_a_read_only_place_is_whole(tmp_path: Path) -> None:
    directory = tmp_path / "run"
    reported = _killed(directory)
    program = """
        import sys
        from pathlib import Path
        from hypertare.runs.store import Store
        with Store.open(Path(sys.argv[1])) as store:
            print(store.count())
    """
    done = subprocess.run(
        _in_mount_namespace(READ_ONLY, directory, textwrap.dedent(program)),
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert reported <= int(done.stdout) <= reported + 1


def test_where_no_memory_can_be_shared_each_trial_is_flushed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """9p without a cache, for example."""
    monkeypatch.setattr(mmap, "mmap", _no_mmap)
    directory = tmp_path / "run"
    script = factory.Script()
    with Store.create(directory, factory.meta(script)) as store:
        store.append(factory.finish(next(factory.planned(script)), script))
        assert [path.name for path in directory.iterdir()] == [RUN_FILE]
        assert store._db.execute("PRAGMA synchronous").fetchone() == (2,)
        store.add_event("at once")
        assert store._db.execute("PRAGMA synchronous").fetchone() == (2,)
    with Store.open(directory) as store:
        assert store.count() == 1


def _no_mmap(*_: object) -> None:
    raise OSError(errno.ENODEV, "No such device")


def test_killed_while_starting_leaves_nothing_in_the_way(tmp_path: Path) -> None:
    directory = tmp_path / "run"
    directory.mkdir()
    (directory / RUN_FILE).touch()
    with pytest.raises(InputError, match="is empty: the run was ended"):
        Store.open(directory)
    with Store.create(directory, factory.meta(factory.Script())) as store:
        assert store.next_trial_id == 0


def test_a_full_disk_is_said_and_the_run_goes_on_later(tmp_path: Path) -> None:
    directory = tmp_path / "full"
    limit = 1 << 18

    def limited() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    with _writer(directory, preexec_fn=limited) as writer:
        _, said = writer.communicate(timeout=60)
    assert writer.returncode == 1 or writer.returncode == MachineError.status
    assert "Traceback" not in said
    assert "cannot" in said and "--resume" in said
    before = _whole(directory)
    assert before > 0
    with Store.resume(directory) as store:
        script = factory.Script(blocks=10_000)
        trial = list(factory.planned(factory.Script(blocks=100)))[before]
        store.append(factory.finish(trial, script), [])
        assert len(store.trials()) == before + 1


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small tmpfs needs root")
def test_a_full_file_system_is_said(tmp_path: Path) -> None:
    mount = tmp_path / "small"
    mount.mkdir()
    program = textwrap.dedent(WRITER)
    done = subprocess.run(
        _in_mount_namespace(
            'mount -t tmpfs -o size=256k tmpfs "$1" && exec "$2" -c "$3" "$1/run"', mount, program
        ),
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == MachineError.status, done.stderr
    assert "The disk is full" in done.stderr
    assert "Traceback" not in done.stderr
    assert len(done.stdout.splitlines()) > 2


@pytest.mark.parametrize("place", ["parent is a file", "no permission"])
def test_a_place_that_cannot_be_written(tmp_path: Path, place: str) -> None:
    if place == "parent is a file":
        (tmp_path / "taken").touch()
        directory = tmp_path / "taken" / "run"
    else:
        directory = Path("/proc/hypertare-run")
    with pytest.raises(MachineError, match="cannot be made") as error:
        Store.create(directory, factory.meta(factory.Script()))
    assert "--out" in str(error.value)


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting read-only needs root")
def test_a_read_only_run_is_readable_and_not_writable(tmp_path: Path) -> None:
    directory = factory.write(tmp_path / "run", factory.Script(blocks=2))
    program = """
        import sys
        from pathlib import Path
        from hypertare.base.errors import MachineError
        from hypertare.runs.store import Store
        with Store.open(Path(sys.argv[1])) as store:
            print(len(store.trials()))
        try:
            Store.resume(Path(sys.argv[1]))
        except MachineError as error:
            print(error)
    """
    done = subprocess.run(
        _in_mount_namespace(
            READ_ONLY,
            directory,
            textwrap.dedent(program),
        ),
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.stdout.startswith("40\n"), done.stderr
    assert "cannot be written" in done.stdout
    assert "copied elsewhere" in done.stdout


def test_no_run_there(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "nothing", tmp_path / "x.sqlite"):
        with pytest.raises(InputError, match="There is no run at") as error:
            Store.open(path)
        assert error.value.status == 2


@pytest.mark.parametrize("content", [b"", b"hello", b"SQLite format 3\x00", b"\x7fELF" * 4000])
def test_a_foreign_file(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "some.sqlite"
    path.write_bytes(content)
    with pytest.raises(
        InputError, match=r"is not a run of hypertare|is damaged|is empty: the run was"
    ):
        Store.open(path)


def test_a_guest_that_no_run_has(tmp_path: Path) -> None:
    """Its number alone would take memory without bound."""
    run = factory.write(tmp_path / "run", factory.Script(blocks=2))
    with sqlite3.connect(run / RUN_FILE) as db:
        db.execute("INSERT INTO guest_value VALUES (1, 30000000, 'elapsed', 1.0)")
    with Store.open(run) as store, pytest.raises(InputError, match="is damaged"):
        store.trials()


def test_a_run_directory_may_be_called_like_a_file(tmp_path: Path) -> None:
    script = factory.Script()
    with Store.create(tmp_path / "x.sqlite", factory.meta(script)):
        pass
    assert (tmp_path / "x.sqlite" / RUN_FILE).is_file()


def test_another_programs_database(tmp_path: Path) -> None:
    path = tmp_path / "other.sqlite"
    with sqlite3.connect(path) as db:
        db.execute("CREATE TABLE trial (id)")
    with pytest.raises(InputError, match="is not a run of hypertare"):
        Store.open(path)


def test_a_newer_format(tmp_path: Path) -> None:
    run = factory.write(tmp_path / "run", factory.Script(blocks=2))
    with sqlite3.connect(run / RUN_FILE) as db:
        db.execute(f"PRAGMA user_version = {SCHEMA_VERSION + 1}")
    for way in (Store.open, Store.resume):
        with pytest.raises(InputError, match="newer hypertare") as error:
            way(run)
        assert "Update hypertare" in str(error.value)


def test_a_run_that_is_gone_on_with_is_no_older_than_its_records(tmp_path: Path) -> None:
    run = factory.write(tmp_path / "run", factory.Script(blocks=2))
    for version, after in ((SCHEMA_VERSION - 1, SCHEMA_VERSION), (3, 3)):
        with sqlite3.connect(run / RUN_FILE) as db:
            db.execute(f"PRAGMA user_version = {version}")
        Store.resume(run).close()
        with sqlite3.connect(run / RUN_FILE) as db:
            assert db.execute("PRAGMA user_version").fetchone() == (after,)


@pytest.mark.parametrize("seed", range(20))
def test_a_damaged_file_never_gives_a_traceback(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    run = factory.write(tmp_path / "run", factory.Script(blocks=2))
    content = bytearray((run / RUN_FILE).read_bytes())
    if seed % 2:
        del content[chance.randrange(len(content)) :]
    else:
        for _ in range(40):
            content[chance.randrange(100, len(content))] = chance.randrange(256)
    (run / RUN_FILE).write_bytes(content)
    try:
        with Store.open(run) as store:
            for trial in store.trials():
                store.records(trial.planned.id)
            _ = store.meta, list(store.benches()), store.warnings(), store.milestones()
    except InputError as error:
        assert str(run) in str(error)


def test_crafted_rows_are_refused(tmp_path: Path) -> None:
    """A file from elsewhere with what hypertare never writes: a lying size, no JSON records."""
    run = factory.write(tmp_path / "run", factory.Script(blocks=2))
    db = sqlite3.connect(run / RUN_FILE)
    db.execute("DROP TRIGGER record_no_UPDATE")
    db.execute("UPDATE record SET bytes = 3 WHERE trial = 0")
    db.execute("UPDATE record SET zstd = x'00' WHERE trial = 1")
    db.execute("UPDATE record SET bytes = 1 << 40 WHERE trial = 2")
    db.commit()
    db.close()
    with Store.open(run) as store:
        for trial in (0, 1, 2):
            with pytest.raises(InputError, match="is damaged"):
                store.records(trial)
        assert store.records(3)
