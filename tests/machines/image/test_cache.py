import os
import subprocess
import sys
import time

import pytest

from hypertare.base.errors import MachineError
from hypertare.machines.image.cache import Cache, DamagedError


def fill(place):
    (place / "file").write_bytes(b"content")
    return {"fact": "yes"}


@pytest.fixture
def cache(tmp_path):
    return Cache(tmp_path)


def put(cache):
    with cache.building(lambda _: None):
        return cache.make("images", "key", "a thing", fill)


@pytest.fixture
def entry(cache):
    """Held for the whole test."""
    return put(cache)


@pytest.fixture
def unused(cache):
    """An entry that nobody holds."""
    put(cache)


def age(cache, days):
    then = time.time() - days * 86400
    os.utime(cache.root / "images/key", (then, then))


def test_what_was_put_is_found(cache, entry):
    found = cache.find("images", "key")
    assert found == entry
    assert found.facts == {"fact": "yes"}
    assert found.read("file") == b"content"
    assert found.file("file").read_bytes() == b"content"
    assert cache.find("images", "other") is None


def test_changed_and_foreign_files_are_noticed(entry):
    (entry.path / "foreign").write_bytes(b"x")
    with pytest.raises(DamagedError):
        entry.read("foreign")
    (entry.path / "file").write_bytes(b"c0ntent")
    with pytest.raises(DamagedError):
        entry.file("file")


def test_rubbish_for_an_entry_is_not_found(cache, entry):
    for text in ("", "[]", '{"what": 1}', "{}"):
        (entry.path / "entry.json").write_text(text)
        assert cache.find("images", "key") is None
    assert [listed.what for listed in cache.listing()] == ["damaged"]


def test_a_failed_make_leaves_nothing(cache):
    def fail(place):
        fill(place)
        raise RuntimeError("no")

    with cache.building(lambda _: None), pytest.raises(RuntimeError):
        cache.make("images", "key", "a thing", fail)
    assert cache.listing() == []
    assert list((cache.root / "work").iterdir()) == []


def test_remains_of_a_killed_build_are_cleared(cache):
    remains = cache.root / "work" / "old"
    remains.mkdir(parents=True)
    with cache.building(lambda _: None):
        assert not remains.exists()


def test_collects_only_what_is_old(cache, unused):
    assert cache.collect(1) == []
    age(cache, 2)
    assert [listed.key for listed in cache.collect(1, dry_run=True)] == ["key"]
    assert [listed.key for listed in cache.collect(1)] == ["key"]
    assert cache.listing() == []


def test_use_keeps_it_young(cache, unused):
    age(cache, 2)
    cache.find("images", "key")
    assert cache.collect(1) == []
    assert cache.collect(0, dry_run=True) != []


def test_what_is_in_use_stays(cache, entry):
    age(cache, 2)
    assert cache.collect(1, dry_run=True) == []
    assert cache.collect(1) == []
    assert entry.read("file") == b"content"


def test_what_another_process_uses_stays_until_it_is_killed(cache, unused):
    code = (
        "import sys, time; from pathlib import Path; from hypertare.machines.image.cache import Cache\n"
        "held = Cache(Path(sys.argv[1])).find('images', 'key'); print('held', flush=True)\n"
        "time.sleep(60)"
    )
    argv = [sys.executable, "-c", code, str(cache.root)]
    user = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)
    try:
        assert user.stdout.readline() == "held\n"
        age(cache, 2)
        assert cache.collect(1) == []
    finally:
        user.kill()
        user.wait()
    assert [listed.key for listed in cache.collect(1)] == ["key"]


def test_listing_tells_size_and_times(cache, entry):
    (listed,) = cache.listing()
    assert listed.what == "a thing"
    assert listed.size >= 7
    assert abs(listed.used - time.time()) < 60


def test_who_waits_is_told_for_whom_and_not_for_ever(tmp_path, monkeypatch):
    cache, said = Cache(tmp_path), []
    holds = "import fcntl, sys, time; f = open(sys.argv[1], 'w'); fcntl.flock(f, fcntl.LOCK_EX)"
    program = [sys.executable, "-c", f"{holds}; print('held', flush=True); time.sleep(60)"]
    with subprocess.Popen([*program, tmp_path / "lock"], stdout=subprocess.PIPE) as other:
        assert other.stdout.readline() == b"held\n"
        monkeypatch.setattr("hypertare.machines.image.cache._PATIENCE_S", 0.2)
        with (
            pytest.raises(MachineError, match="HYPERTARE_CACHE") as caught,
            cache.building(said.append),
        ):
            pass
        other.kill()
    holder = f": process {other.pid}, {sys.executable} -c import fcntl"
    assert holder in caught.value.what
    assert len(said) == 1 and said[0].startswith(f"waiting for another build{holder}")
