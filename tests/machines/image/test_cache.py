import os
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

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
    assert cache.sound("images", "key") == entry
    assert cache.find("images", "other") is None


def test_changed_and_foreign_files_are_noticed(cache, entry):
    (entry.path / "foreign").write_bytes(b"x")
    with pytest.raises(DamagedError):
        entry.read("foreign")
    (entry.path / "file").write_bytes(b"c0ntent")
    assert not entry.is_sound("file")
    assert cache.sound("images", "key") is None and not entry.stands


def test_rubbish_for_an_entry_is_not_found(cache, entry):
    for text in ("", "[]", '{"what": 1}', "{}"):
        (entry.path / "entry.json").write_text(text)
        assert cache.find("images", "key") is None
    assert [listed.what for listed in cache.listing()] == ["damaged"]


def test_a_failed_make_leaves_nothing(cache):
    def fail(place):
        fill(place)
        raise RuntimeError("no")

    with pytest.raises(RuntimeError):
        cache.make("images", "key", "a thing", fail)
    assert cache.listing() == []
    assert list((cache.root / "work").iterdir()) == []


def test_remains_of_a_killed_build_are_cleared(cache):
    remains = cache.root / "work" / "old"
    remains.mkdir(parents=True)
    put(cache)
    assert not remains.exists()


def test_one_that_is_there_is_not_made_again(cache, entry):
    assert cache.make("images", "key", "another", lambda place: pytest.fail(f"{place}")) == entry


def test_one_that_was_replaced_takes_nothing_away(cache, entry):
    cache.drop(entry)
    again = put(cache)
    cache.drop(entry)
    assert not entry.stands and again.stands
    assert cache.find("images", "key").read("file") == b"content"
    cache.drop(again)
    assert cache.find("images", "key") is None


def test_each_is_made_once_and_those_of_other_keys_meanwhile(cache):
    """Sixteen threads for four keys: an entry's makers wait for each other, and for nobody else."""
    keys = "abcd"
    begun, made, said = threading.Barrier(len(keys), timeout=30), [], []

    def slow(place):
        begun.wait()  # All four at once, or this fails.
        time.sleep(0.05)
        made.append(place)
        return fill(place)

    def one(key):
        return cache.make("images", key, "a thing", slow, said.append)

    with ThreadPoolExecutor(16) as pool:
        entries = list(pool.map(one, keys * 4))
    assert len(made) == len(keys)
    assert {entry.key for entry in entries} == set(keys) and all(entry.stands for entry in entries)
    # How many had to wait depends on when their threads began.
    assert all(text.startswith("waiting for another build") for text in said)
    assert list((cache.root / "locks/images").iterdir()) == []


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


def test_listing_reports_size_and_times(cache, entry):
    (listed,) = cache.listing()
    assert listed.what == "a thing"
    assert listed.size >= 7
    assert abs(listed.used - time.time()) < 60


def test_who_waits_is_reported_for_whom_and_not_for_ever(tmp_path, monkeypatch):
    cache, said = Cache(tmp_path), []
    holds = "import fcntl, sys, time; f = open(sys.argv[1], 'w'); fcntl.flock(f, fcntl.LOCK_EX)"
    program = [sys.executable, "-c", f"{holds}; print('held', flush=True); time.sleep(60)"]
    (tmp_path / "locks/images").mkdir(parents=True)
    with subprocess.Popen(
        [*program, tmp_path / "locks/images/key"], stdout=subprocess.PIPE
    ) as other:
        assert other.stdout.readline() == b"held\n"
        monkeypatch.setattr("hypertare.machines.image.cache._PATIENCE_S", 0.2)
        with pytest.raises(MachineError, match="HYPERTARE_CACHE") as caught:
            cache.make("images", "key", "a thing", fill, said.append)
        other.kill()
    holder = f": process {other.pid}, {sys.executable} -c import fcntl"
    assert holder in caught.value.what
    assert len(said) == 1 and said[0].startswith(f"waiting for another build{holder}")
