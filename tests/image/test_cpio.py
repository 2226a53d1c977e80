import stat

import pytest

from hypertare.errors import InputError
from hypertare.image import cpio
from tests.image import newc

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
