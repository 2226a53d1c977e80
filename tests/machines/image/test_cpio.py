import stat
from pathlib import Path

import pytest

from hypertare.base.errors import InputError
from hypertare.machines.image import cpio
from tests.machines.image import newc

MEMBERS = [
    cpio.file("modules/b.ko", b"12345"),
    cpio.file("/init", b"program", executable=True),
    cpio.device("dev/console", 5, 1),
    cpio.link("bin", "usr/bin"),
    cpio.directory("tmp", 0o1777),
]


def test_reads_back_what_was_written():
    found = newc.read(cpio.archive(MEMBERS))
    assert found["init"].data == b"program"
    assert found["init"].mode == stat.S_IFREG | 0o755
    assert found["modules/b.ko"].mode == stat.S_IFREG | 0o644
    assert found["dev/console"].mode == stat.S_IFCHR | 0o600
    assert found["dev/console"].device == (5, 1)
    assert (found["bin"].mode, found["bin"].data) == (stat.S_IFLNK | 0o777, b"usr/bin")
    assert found["tmp"].mode == stat.S_IFDIR | 0o1777
    assert {member.uid for member in found.values()} == {0}
    assert {member.mtime for member in found.values()} == {0}


def test_directories_stand_before_their_content():
    names = list(newc.read(cpio.archive(MEMBERS)))
    assert names.index("modules") < names.index("modules/b.ko")
    assert names.index("dev") < names.index("dev/console")


def test_same_content_gives_same_bytes_in_any_order():
    assert cpio.archive(MEMBERS) == cpio.archive(reversed(MEMBERS))


def test_archives_may_follow_each_other():
    both = cpio.archive(MEMBERS) + cpio.archive([cpio.file("plan", b"{}")])
    assert set(newc.read(both)) >= {"init", "plan"}


@pytest.mark.parametrize("name", ["", "/", "../etc/passwd", "a/../../b", "TRAILER!!!"])
def test_unsafe_names_are_refused(name):
    with pytest.raises(InputError, match="cannot be a name"):
        cpio.archive([cpio.file(name, b"")])


def test_a_name_twice_is_refused():
    with pytest.raises(InputError, match="twice"):
        cpio.archive([cpio.file("a", b"1"), cpio.file("/a", b"2")])


def test_unpacked_on_this_host_nothing_is_written_through_a_link(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    root = tmp_path / "root"
    members = [
        cpio.link("lib", str(outside)),
        cpio.file("usr/bin/tool", b"#!", executable=True),
        cpio.directory("var/empty", 0o700),
        cpio.link("bin/tool", "/usr/bin/tool"),
    ]
    cpio.unpack(members, root)
    assert (root / "usr/bin/tool").stat().st_mode & 0o777 == 0o755
    assert (root / "bin/tool").readlink() == Path("/usr/bin/tool")
    assert (root / "var/empty").is_dir() and (root / "lib").is_symlink()
    # A file below a link's name makes a directory of it, inside, and the link is refused.
    with pytest.raises(FileExistsError):
        cpio.unpack([cpio.link("lib", str(outside)), cpio.file("lib/x", b"")], tmp_path / "other")
    assert list(outside.iterdir()) == []
    with pytest.raises(InputError):
        cpio.unpack([cpio.file("../x", b"")], root)
