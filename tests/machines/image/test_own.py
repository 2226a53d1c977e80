from __future__ import annotations

import shutil
import stat
import subprocess
from pathlib import Path

import pytest

from hypertare.base import paths
from hypertare.base.errors import InputError
from hypertare.machines.image import userland
from tests.machines.image import factory


class Packages:
    """Packages with these libraries."""

    def __init__(self, libraries: dict[str, bytes]) -> None:
        self.libraries = libraries

    def has(self, soname: str) -> bool:
        return soname in self.libraries

    def content(self, soname: str) -> bytes:
        return self.libraries[soname]


@pytest.fixture
def program(tmp_path) -> Path:
    place = tmp_path / "my-true"
    shutil.copy("/usr/bin/true", place)
    return place


def test_a_program_comes_with_this_hosts_libraries(program) -> None:
    found = userland.read_own(program, "/projects")
    (member,) = found.members
    assert (found.command, member.path) == ("my-true", "usr/local/bin/my-true")
    assert member.data == program.read_bytes() and member.mode & 0o111
    said = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout
    assert set(found.libraries) == {line.split()[0] for line in said.splitlines() if "=>" in line}
    userland.check_own(found, Packages({}))
    userland.check_own(found, Packages(dict(found.libraries)))


def test_a_static_program_needs_nothing() -> None:
    found = userland.read_own(paths.agent_binary(), "/projects")
    assert found.libraries == {} and found.command == "hypertare-agent"


def test_a_library_that_is_too_old_is_named_before_anything_boots(program) -> None:
    found = userland.read_own(program, "/projects")
    old = {"libc.so.6": factory.elf()}
    with pytest.raises(InputError, match=r"my-true needs GLIBC_\S+ of libc\.so\.6"):
        userland.check_own(found, Packages(old))


def test_a_directory_is_taken_as_it_is(tmp_path) -> None:
    folder = tmp_path / "project"
    (folder / "empty").mkdir(parents=True)
    (folder / "a.c").write_text("int a;")
    (folder / "configure").write_text("#!/bin/sh")
    (folder / "configure").chmod(0o755)
    (folder / "link").symlink_to("a.c")
    found = userland.read_own(folder / ".", "/projects")
    modes = {member.path: member.mode for member in found.members}
    assert modes == {
        "/projects/project": stat.S_IFDIR | 0o755,
        "/projects/project/a.c": stat.S_IFREG | 0o644,
        "/projects/project/configure": stat.S_IFREG | 0o755,
        "/projects/project/empty": stat.S_IFDIR | 0o755,
        "/projects/project/link": stat.S_IFLNK | 0o777,
    }
    assert found.command is None and userland.read_own(folder, "/projects").digest == found.digest
    (folder / "a.c").write_text("int b;")
    assert userland.read_own(folder, "/projects").digest != found.digest


def test_a_directory_that_is_too_large_is_refused(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(userland, "_MOST", 1000)
    (tmp_path / "file").write_bytes(bytes(2000))
    with pytest.raises(InputError, match="would lie in the machine's memory"):
        userland.read_own(tmp_path, "/projects")


def test_what_cannot_be_taken_along_is_refused(tmp_path, program) -> None:
    with pytest.raises(InputError, match="absent: No such file"):
        userland.read_own(tmp_path / "absent", "/projects")
    program.chmod(0o644)
    with pytest.raises(InputError, match="is not executable"):
        userland.read_own(program, "/projects")
    program.chmod(0o755)
    program.write_bytes(program.read_bytes()[:300])
    with pytest.raises(InputError, match="damaged"):
        userland.read_own(program, "/projects")
    program.write_bytes(factory.elf(sections={".interp": b"/lib/ld-musl.so.1\0"}))
    with pytest.raises(InputError, match=r"wants the loader /lib/ld-musl\.so\.1"):
        userland.read_own(program, "/projects")


def test_a_library_that_this_host_lacks_is_named(program, monkeypatch) -> None:
    def without(argv, limit, cwd=None):
        said = "\tlibgone.so.3 => not found\n\tlibc.so.6 => /lib/libc.so.6 (0x00007f)\n"
        return subprocess.CompletedProcess(argv, 0, said, "")

    monkeypatch.setattr(userland, "captured", without)
    with pytest.raises(InputError, match=r"needs libgone\.so\.3"):
        userland.read_own(program, "/projects")
