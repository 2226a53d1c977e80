from __future__ import annotations

import shutil
import stat
import subprocess
from pathlib import Path

import pytest

from hypertare.base.arch import ARCH
from hypertare.base.errors import MachineError
from hypertare.machines.image.cache import Cache, DamagedError, Entry
from hypertare.machines.image.userland import Userland, depends, needs_of

PROGRAM = "usr/bin/true"


@pytest.fixture(scope="module")
def needed() -> dict[str, Path]:
    """This host's libraries of its own `true`, by soname."""
    said = subprocess.run(["ldd", f"/{PROGRAM}"], capture_output=True, text=True, check=True).stdout
    words = [line.split() for line in said.splitlines()]
    paths = [
        Path(next(w for w in line if w.startswith("/"))) for line in words if "/" in "".join(line)
    ]
    return {path.name: path for path in paths}


def package(cache: Cache, key: str, files: dict[str, Path], links: dict[str, str]) -> Entry:
    def fill(place: Path) -> dict[str, str]:
        for name, source in files.items():
            (place / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, place / name)
        for name, target in links.items():
            (place / name).symlink_to(target)
        return {}

    return cache.make("packages", key, key, fill)


@pytest.fixture
def packages(tmp_path: Path, needed: dict[str, Path]) -> list[Entry]:
    """The program in one package, its libraries in another, each behind a link of its soname."""
    cache = Cache(tmp_path / "cache")
    files = {f"lib/x86_64-linux-gnu/{name}.real": path.resolve() for name, path in needed.items()}
    links = {f"lib/x86_64-linux-gnu/{name}": f"{name}.real" for name in needed}
    program = package(cache, "program", {PROGRAM: Path(f"/{PROGRAM}").resolve()}, {})
    return [program, package(cache, "libraries", files, links)]


def test_a_program_comes_with_all_it_needs_and_runs(packages, tmp_path, needed) -> None:
    members = Userland(packages).members([PROGRAM])
    root = tmp_path / "root"
    for member in members:
        place = root / member.path
        place.parent.mkdir(parents=True, exist_ok=True)
        if stat.S_ISLNK(member.mode):
            place.symlink_to(root / member.data.decode().lstrip("/"))
        else:
            place.write_bytes(member.data)
            place.chmod(stat.S_IMODE(member.mode))
    assert {path.name for path in (root / ARCH.libraries).iterdir()} == set(needed)
    loader = needs_of(PROGRAM, (root / PROGRAM).read_bytes()).loader
    assert loader is not None
    own = [root / loader.lstrip("/"), "--library-path", root / ARCH.libraries]
    assert subprocess.run([*own, root / PROGRAM], check=False).returncode == 0
    loaded = subprocess.run([*own, "--list", root / PROGRAM], capture_output=True, text=True)
    assert f"libc.so.6 => {root / ARCH.libraries / 'libc.so.6'}" in loaded.stdout


def test_the_order_of_packages_does_not_matter(packages) -> None:
    one, other = Userland(packages), Userland(packages[::-1])
    assert one.members([PROGRAM]) == other.members([PROGRAM])


def test_what_no_package_has_is_named(packages) -> None:
    with pytest.raises(MachineError, match="usr/bin/false"):
        Userland(packages).members(["usr/bin/false"])
    with pytest.raises(MachineError, match=r"libc\.so\.6"):
        Userland(packages[:1]).members([PROGRAM])
    with pytest.raises(MachineError, match="libmissing"):
        Userland(packages).members([PROGRAM], loaded=["libmissing.so.1"])


def test_a_changed_file_is_noticed(packages) -> None:
    (packages[0].path / PROGRAM).write_bytes(b"\x7fELF")
    with pytest.raises(DamagedError):
        Userland(packages).members([PROGRAM])


def test_scripts_need_nothing_and_damaged_programs_are_refused() -> None:
    assert needs_of("script", b"#!/bin/sh\n").libraries == ()
    with pytest.raises(MachineError, match="damaged"):
        needs_of("cut", Path(f"/{PROGRAM}").read_bytes()[:200])


def test_depends() -> None:
    text = "libc6 (>= 2.34), libfoo1 | libbar1 (<< 2), python3:any, zlib1g (>= 1:1.1.4)"
    assert depends(text) == ["libc6", "libfoo1", "python3", "zlib1g"]
    assert depends("") == []
