"""Sets of programs from made-up packages: what is in them is this host's, laid out as Debian does."""

from __future__ import annotations

import hashlib
import shutil
import stat
import subprocess
from pathlib import Path

import pytest

from hypertare.base.arch import ARCH
from hypertare.base.errors import InputError, MachineError
from hypertare.machines.image import programs
from hypertare.machines.image.cache import Cache, Entry
from hypertare.machines.image.package import Source
from hypertare.machines.image.programs import SHELL, Choice, ProgramSet
from hypertare.study.sut import PROGRAM_SETS
from tests.machines.image.newc import read
from tests.machines.image.test_source import FILES, packed

TAR = packed(FILES)
THING = Source("thing 1", "t.tar.gz", hashlib.sha256(TAR).hexdigest(), "thing", "thing-1")
MADE = ProgramSet(
    name="made",
    what="made up",
    packages=("tool",),
    shown=("tool",),
    programs=(r"usr/bin/(gcc|gcc-9)",),
    files=(r"usr/include/.*",),
    commands=("gcc",),
    trees=(THING,),
    archives=(THING,),
)


def needed() -> dict[str, Path]:
    """This host's libraries of its own `true`, by soname."""
    said = subprocess.run(["ldd", "/usr/bin/true"], capture_output=True, text=True, check=True)
    found = [Path(w) for w in said.stdout.split() if w.startswith("/")]
    return {path.name: path.resolve() for path in found}


def package(cache: Cache, name: str, files: dict, links: dict | None = None, depends: str = ""):
    """A package, noted under its name as if it had been fetched."""

    def fill(place: Path) -> dict[str, str]:
        for path, content in files.items():
            (place / path).parent.mkdir(parents=True, exist_ok=True)
            if isinstance(content, Path):
                shutil.copy(content, place / path)
            else:
                (place / path).write_bytes(content)
        for path, target in (links or {}).items():
            (place / path).symlink_to(target)
        return {"name": name, "version": "9.1", "depends": depends}

    entry = cache.make("packages", f"{name}_9.1", name, fill)
    cache.make("names", name, name, lambda _: {"key": entry.key})


@pytest.fixture
def cache(tmp_path, monkeypatch) -> Cache:
    monkeypatch.setitem(programs.SETS, "made", MADE)
    made = Cache(tmp_path / "cache")
    true = Path("/usr/bin/true").resolve()
    libraries = {f"lib/x86_64-linux-gnu/{name}": path for name, path in needed().items()}
    package(made, "libc6", libraries)
    package(made, "dash", {"bin/dash": true}, {"bin/sh": "dash"}, "libc6, dpkg")
    tools = [name for name in SHELL.commands if name not in ("sh", "dash")]
    package(made, "coreutils", {f"usr/bin/{name}": true for name in tools[:9]})
    for name in ("grep", "sed", "diffutils"):
        package(made, name, {f"bin/{name}": true})
    headers = {"usr/include/a.h": b"a", "usr/share/doc/a": b"-"}
    package(made, "tool", {"usr/bin/gcc-9": true, **headers}, {"usr/bin/gcc": "gcc-9"})

    def kept(place: Path) -> dict[str, str]:
        (place / THING.file).write_bytes(TAR)
        return {}

    made.make("sources", THING.key, "source", kept)
    return made


def find(cache: Cache, *names: str) -> programs.Programs:
    found = programs.find(programs.choose(names), cache)
    assert found is not None
    return found


def test_a_set_comes_with_libraries_links_shell_and_what_it_works_on(cache) -> None:
    members = {member.path.lstrip("/"): member for member in find(cache, "made").members()}
    links = {p: m.data.decode() for p, m in members.items() if stat.S_ISLNK(m.mode)}
    assert links["usr/bin/gcc"] == "gcc-9" and links["usr/bin/cc"] == "gcc"
    assert links["bin/sh"] == "/usr/bin/sh" and links["usr/bin/sh"] == "dash"
    assert links["lib/x86_64-linux-gnu"] == f"/{ARCH.libraries}"
    assert members["usr/bin/dash"].mode & 0o111 and "bin/dash" in links
    assert {f"{ARCH.libraries}/{name}" for name in needed()} <= set(members)
    assert members["usr/include/a.h"].data == b"a" and "usr/share/doc/a" not in members
    assert members["projects/thing-1/main.c"].data == FILES["thing-1/main.c"][0]
    assert len(members["projects/thing-1.tar"].data) > len(TAR)


def test_versions_are_reported_and_the_order_asked_for_does_not_matter(cache) -> None:
    assert find(cache, "made").versions == "tool 9.1"
    assert programs.choose(["compress", "build"]) == programs.choose(["build", "compress"])
    assert programs.choose([]) == Choice()
    assert {"sh", "make", "gcc"} <= set(programs.choose(["build"]).commands)


def test_what_a_package_no_longer_has_is_named(cache, monkeypatch) -> None:
    other = ProgramSet("made", "", ("tool",), programs=(r"usr/bin/absent\d",), commands=())
    monkeypatch.setitem(programs.SETS, "made", other)
    with pytest.raises(MachineError, match=r"usr/bin/absent\\d"):
        find(cache, "made").members()


def test_an_unknown_set_is_refused() -> None:
    with pytest.raises(InputError, match=r"no set of programs 'bild'.*\n.*build, compress"):
        programs.choose(["bild"])


def test_without_its_packages_or_its_source_it_is_not_found(cache) -> None:
    assert programs.find(programs.choose(["build"]), cache) is None
    entry = THING.find(cache)
    assert entry is not None
    cache.drop(entry)
    assert programs.find(programs.choose(["made"]), cache) is None
    assert THING.find(cache) is None


def test_this_hosts_program_is_taken_along(cache, tmp_path) -> None:
    shutil.copy("/usr/bin/true", tmp_path / "mine")
    with_own = find(cache, "made", str(tmp_path / "mine"))
    members = {member.path: member for member in with_own.members()}
    assert members["usr/local/bin/mine"].data == Path("/usr/bin/true").read_bytes()
    assert with_own.digest != find(cache, "made").digest
    assert with_own.versions.endswith("mine of this host")
    assert "mine" in with_own.choice.commands
    alone = find(cache, str(tmp_path / "mine"))
    paths = {one.path for one in alone.members()}
    assert paths >= {"usr/local/bin/mine", "usr/bin/dash", "/projects"}, "commands start there"


def test_two_paths_of_one_name_are_refused(tmp_path) -> None:
    for folder in ("a", "b"):
        (tmp_path / folder / "same").mkdir(parents=True)
    with pytest.raises(InputError, match="two paths end in same"):
        programs.choose([str(tmp_path / "a/same"), str(tmp_path / "b/same")])


def test_an_image_with_programs_is_another_one_behind_the_first(bench, cache) -> None:
    bench.cache = cache
    plain = bench.build(profile="guest")
    filled = bench.build(profile="guest", programs=["made"])
    assert plain.programs == "" and filled.programs == "tool 9.1"
    assert plain.digest != filled.digest
    before, after = plain.initramfs.read_bytes(), filled.initramfs.read_bytes()
    assert after.startswith(before)
    assert "projects/thing-1.tar" in read(after[len(before) :])
    assert plain.programs_size == 0
    # Whole pages, without the names.
    assert filled.programs_size > len(after) - len(before)
    assert bench.build(profile="guest", programs=["made"]) == filled
    what = next(one.what for one in cache.listing() if one.key == filled.digest)
    assert what.endswith("with made")


def test_a_damaged_package_of_an_image_is_fetched_again(bench, cache) -> None:
    """It cannot be here, for there is no such package; but it is noticed."""
    entry = cache.find("packages", "tool_9.1")
    assert isinstance(entry, Entry)
    (entry.path / "usr/include/a.h").write_bytes(b"other")
    bench.cache = cache
    said: list[str] = []
    with pytest.raises(MachineError, match="tool"):
        bench.build(profile="guest", programs=["made"], progress=said.append)
    assert any("a.h is damaged; making it again" in line for line in said)


def test_a_study_may_name_the_sets_that_there_are() -> None:
    assert tuple(programs.SETS) == PROGRAM_SETS
