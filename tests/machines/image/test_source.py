"""A made-up source beside a made-up package, with stand-ins for apt that answer as apt does."""

import dataclasses
import gzip
import hashlib
import io
import tarfile
from pathlib import Path

import pytest

from hypertare.base.errors import MachineError
from hypertare.machines.image import package
from hypertare.machines.image.cache import Cache, DamagedError
from hypertare.machines.image.package import Source

APT_GET = """#!/bin/sh
for wanted; do :; done
[ "$wanted" = thing ] || { echo "E: Unable to locate package $wanted" >&2; exit 100; }
echo "Reading lists..."
echo "'http://mirror.invalid/pool/t/thing_1%2b1_amd64.deb' thing_1+1_amd64.deb 9 SHA256:00"
"""
APT_HELPER = """#!/bin/sh
while [ "$1" != download-file ]; do shift; done
[ "${{2%/*}}" = http://mirror.invalid/pool/t ] || exit 9
cp "{place}/${{2##*/}}" "$3" || {{ echo "E: Failed to fetch $2" >&2; exit 100; }}
"""
FILES = {"thing-1/main.c": (b"int main;", 0o644), "thing-1/sub/run": (b"#!/bin/sh\n", 0o755)}


def packed(files: dict[str, tuple[bytes, int]]) -> bytes:
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w") as opened:
        for name, (data, mode) in files.items():
            info = tarfile.TarInfo(name)
            info.size, info.mode = len(data), mode
            opened.addfile(info, io.BytesIO(data))
    return gzip.compress(plain.getvalue())


def thing(data: bytes) -> Source:
    digest = hashlib.sha256(data).hexdigest()
    return Source("thing 1", "thing_1.orig.tar.gz", digest, "thing", "thing-1")


@pytest.fixture
def mirror(tmp_path, monkeypatch):
    """Where files lie that can be downloaded."""
    place = tmp_path / "mirror"
    place.mkdir()
    for name, text in (("apt-get", APT_GET), ("helper", APT_HELPER.format(place=place))):
        (place / name).write_text(text)
        (place / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{place}:/usr/bin:/bin")
    monkeypatch.setattr(package, "_APT_HELPER", str(place / "helper"))
    return place


def fetch(wanted: Source, cache: Cache, given: Path | None = None):
    return wanted.fetch(cache, lambda _: None, given)


def test_it_is_fetched_once_and_unpacked(mirror, tmp_path) -> None:
    data = packed(FILES)
    wanted, cache = thing(data), Cache(tmp_path / "cache")
    (mirror / wanted.file).write_bytes(data)
    assert wanted.find(cache) is None
    entry = fetch(wanted, cache)
    (mirror / wanted.file).unlink()
    assert fetch(wanted, cache).path == entry.path
    members = wanted.tree(entry, "/projects")
    found = {member.path: (member.data, member.mode & 0o777) for member in members}
    assert found == {f"/projects/{name}": content for name, content in FILES.items()}
    assert wanted.archive(entry) == gzip.decompress(data)


def test_other_bytes_under_its_name_are_refused_and_not_kept(mirror, tmp_path) -> None:
    wanted, cache = thing(packed(FILES)), Cache(tmp_path / "cache")
    (mirror / wanted.file).write_bytes(packed({}))
    with pytest.raises(MachineError, match=r"thing_1\.orig\.tar\.gz is not what it should be"):
        fetch(wanted, cache)
    assert wanted.find(cache) is None and cache.listing() == []


def test_what_the_archive_lacks_is_named(mirror, tmp_path) -> None:
    wanted, cache = thing(b""), Cache(tmp_path / "cache")
    with pytest.raises(MachineError, match=r"Cannot download thing_1\.orig\.tar\.gz") as caught:
        fetch(wanted, cache)
    assert "network" in str(caught.value.do)
    unknown = dataclasses.replace(wanted, package="nothing")
    with pytest.raises(MachineError, match="Unable to locate package nothing"):
        fetch(unknown, cache)


def test_it_may_be_given(mirror, tmp_path) -> None:
    data = packed(FILES)
    wanted, cache = thing(data), Cache(tmp_path / "cache")
    (tmp_path / wanted.file).write_bytes(packed({}))
    with pytest.raises(MachineError, match="is not what it should be"):
        fetch(wanted, cache, tmp_path)
    (tmp_path / wanted.file).write_bytes(data)
    assert fetch(wanted, cache, tmp_path).read(wanted.file) == data
    # A directory without it is no hindrance.
    (mirror / wanted.file).write_bytes(data)
    assert fetch(wanted, Cache(tmp_path / "other"), tmp_path / "none")


def test_a_file_changed_in_the_cache_is_noticed(mirror, tmp_path) -> None:
    data = packed(FILES)
    wanted, cache = thing(data), Cache(tmp_path / "cache")
    (mirror / wanted.file).write_bytes(data)
    entry = fetch(wanted, cache)
    (entry.path / wanted.file).write_bytes(b"changed")
    with pytest.raises(DamagedError):
        wanted.archive(entry)
    assert fetch(wanted, cache).read(wanted.file) == data


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"no gzip", "damaged"),
        (packed(FILES)[:60], "damaged"),
        (gzip.compress(b"no tar" * 999), "damaged"),
        (packed({"other/file": (b"", 0o644)}), "outside thing-1"),
        (packed({"thing-1/../../etc/x": (b"", 0o644)}), "outside thing-1"),
    ],
    ids=["no gzip", "cut short", "no tar", "another project's", "a way out"],
)
def test_what_is_no_such_project_is_refused(mirror, tmp_path, data, said) -> None:
    wanted, cache = thing(data), Cache(tmp_path / "cache")
    (mirror / wanted.file).write_bytes(data)
    with pytest.raises(MachineError, match=said):
        wanted.tree(fetch(wanted, cache), "/projects")


def test_a_bomb_is_refused(mirror, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(package, "_MOST", 1 << 20)
    data = gzip.compress(bytes(2 << 20))
    wanted, cache = thing(data), Cache(tmp_path / "cache")
    (mirror / wanted.file).write_bytes(data)
    with pytest.raises(MachineError, match="more than 1 MB"):
        wanted.archive(fetch(wanted, cache))
