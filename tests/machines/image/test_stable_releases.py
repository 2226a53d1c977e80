"""Made-up releases in made-up files of the distribution's changes."""

from __future__ import annotations

import hashlib
import io
import tarfile
from pathlib import Path

import pytest

from hypertare.base.errors import MachineError
from hypertare.machines.image import emulator
from hypertare.machines.image.cache import Cache, Entry
from hypertare.machines.image.package import Package

FILES = ("v7.2.1.diff", "v7.2.2.diff")
TEXTS = (b"first\n", b"second\n")
NOW = "qemu_7.2+dfsg-7+deb12u19.debian.tar.xz"


def changes(place: Path, name: str = NOW, texts: tuple[bytes, ...] = TEXTS) -> Path:
    """With one release more than is asked for, which may lie before those."""
    path = place / name
    files = {"v7.2.3.diff": b"third\n", **dict(zip(FILES, texts, strict=False))}
    with tarfile.open(path, "w:xz") as opened:
        for file, data in files.items():
            info = tarfile.TarInfo(f"debian/patches/{file}")
            info.size = len(data)
            opened.addfile(info, io.BytesIO(data))
    return path


@pytest.fixture
def archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What lies beside the package; its version is that of a rebuild."""
    place = tmp_path / "archive"
    place.mkdir()
    version = "1:7.2+dfsg-7+deb12u19+b2"
    package = Package("qemu-system-x86", version, "amd64", "0" * 64, 1, "")

    def download(_: str, file: str, into: Path) -> Path:
        if not (place / file).exists():
            raise MachineError(f"Cannot download {file}.", "See that there is a network.")
        (into / file).write_bytes((place / file).read_bytes())
        return into / file

    monkeypatch.setattr(emulator, "look_up", lambda _: package)
    monkeypatch.setattr(emulator, "download_beside", download)
    monkeypatch.setattr(emulator, "RELEASE_FILES", FILES)
    digest = hashlib.sha256(b"".join(TEXTS)).hexdigest()
    monkeypatch.setattr(emulator, "RELEASES_SHA256", digest)
    return place


def fetch(tmp_path: Path, given: Path | None = None) -> Entry:
    cache = Cache(tmp_path / "cache")
    return emulator.fetch_stable_releases(cache, lambda _: None, given)


def test_they_come_out_of_whatever_the_archive_has_now(archive: Path, tmp_path: Path) -> None:
    """A later one than any that was known when this was written, with a release more."""
    changes(archive)
    entry = fetch(tmp_path)
    kept = {path.name for path in entry.path.iterdir()} - {"entry.json"}
    assert kept == set(FILES)
    assert tuple(entry.read(name) for name in FILES) == TEXTS
    (archive / NOW).unlink()
    assert fetch(tmp_path).path == entry.path


def test_what_is_damaged_in_the_cache_is_fetched_again(archive: Path, tmp_path: Path) -> None:
    changes(archive)
    (fetch(tmp_path).path / FILES[0]).write_bytes(b"other")
    assert fetch(tmp_path).read(FILES[0]) == TEXTS[0]


def test_other_texts_are_refused_and_not_kept(archive: Path, tmp_path: Path) -> None:
    changes(archive, texts=(b"first\n", b"evil\n"))
    with pytest.raises(MachineError, match="has other texts of QEMU 7") as caught:
        fetch(tmp_path)
    assert "--sources DIR" in str(caught.value.do)
    assert Cache(tmp_path / "cache").listing() == []


@pytest.mark.parametrize("damage", ["a release is missing", "no archive"])
def test_changes_without_them_are_refused(archive: Path, tmp_path: Path, damage: str) -> None:
    path = changes(archive, texts=TEXTS[:1])
    if damage == "no archive":
        path.write_bytes(b"nothing that xz packed")
    with pytest.raises(MachineError, match="lacks QEMU 7") as caught:
        fetch(tmp_path)
    assert "snapshot.debian.org" in str(caught.value.do)


def test_without_a_network_they_may_be_given(archive: Path, tmp_path: Path) -> None:
    with pytest.raises(MachineError, match="Cannot download qemu_7") as caught:
        fetch(tmp_path)
    assert "network" in str(caught.value.do) and "--sources DIR" in str(caught.value.do)
    given = tmp_path / "given"
    given.mkdir()
    changes(given, "qemu_7.2+dfsg-7+deb12u9.debian.tar.xz", TEXTS[:1])
    changes(given, "qemu_7.2+dfsg-7+deb12u18.debian.tar.xz")
    assert fetch(tmp_path, given).read(FILES[1]) == TEXTS[1]
    assert len(list(given.iterdir())) == 2, "what is the user's stays"
