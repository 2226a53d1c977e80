"""The emulator's builder: all that it starts is made up, and says what it was asked."""

from __future__ import annotations

import multiprocessing
import shutil
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from hypertare.base.errors import MachineError
from hypertare.machines.image import emulator
from hypertare.machines.image.cache import Cache, Entry
from hypertare.machines.image.package import Source
from tests.integration.lab import until

TAR = """mkdir -p {folder}/configs/devices/x86_64-softmmu
printf '#!/bin/sh\\necho configured "$@"\\n' >{folder}/configure
chmod 755 {folder}/configure"""
NINJA = """echo built >>"{asked}"
for step in 1 2 3 4; do echo "[$step/4] step $step"; done
echo "an emulator" >qemu-system-x86_64"""
FAILS = "echo '[1/4] step 1'; echo 'cpu.c:7: error: no such thing'; exit 9"
GCC = "echo 'gcc (Debian 12.2.0-14) 12.2.0'"


class Made:
    """A host of scripts with a cache of its own."""

    def __init__(self, place: Path) -> None:
        self.asked = place / "asked"
        self.bin = place / "bin"
        self.bin.mkdir()
        self.cache = Cache(place / "cache")
        tar = TAR.replace("{folder}", emulator.QEMU.folder)
        scripts = {"gcc": GCC, "tar": tar, "make": "", "python3": "", "xz": ""}
        for name, text in {**scripts, "patch": "", "strip": ""}.items():
            self.script(name, text)
        self.script("ninja", NINJA)
        self.said: list[str] = []

    def script(self, name: str, text: str) -> None:
        path = self.bin / name
        path.write_text(f"#!/bin/sh\n{text.replace('{asked}', str(self.asked))}\n")
        path.chmod(0o755)

    def build(self, **options: bool) -> emulator.Emulator:
        return emulator.build(self.said.append, cache=self.cache, **options)

    @property
    def built(self) -> int:
        return len(self.asked.read_text().splitlines()) if self.asked.exists() else 0


def fetched(cache: Cache) -> Callable[..., Entry]:
    """Stands for what fetches QEMU's source."""

    def fetch(one: Source, *_: object) -> Entry:
        known = cache.find("sources", one.key)
        return known or cache.make("sources", one.key, "source", holding(one.file))

    return fetch


def holding(*names: str) -> Callable[[Path], dict[str, str]]:
    def fill(place: Path) -> dict[str, str]:
        for name in names:
            (place / name).write_bytes(b"packed")
        return {}

    return fill


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Made:
    found = Made(tmp_path)
    monkeypatch.setattr(emulator, "_PATH", f"{found.bin}:/usr/bin:/bin")
    monkeypatch.setattr(Source, "fetch", fetched(found.cache))
    monkeypatch.setattr(
        emulator,
        "fetch_stable_releases",
        lambda cache, *_: cache.make(
            "sources", "stable", "source", holding(*emulator.RELEASE_FILES)
        ),
    )
    monkeypatch.setattr(emulator, "fetch_all", lambda *_, **__: [])
    return found


def test_it_is_built_once_and_kept(made: Made) -> None:
    assert emulator.find(made.cache) is None
    first, again = made.build(), made.build()
    assert (made.built, first.key, first.program) == (1, again.key, again.program)
    assert first.program.read_text() == "an emulator\n"
    assert first.program.stat().st_mode & 0o777 == 0o755, "QEMU runs as a user of its own"
    assert [path.name for path in first.program.parent.iterdir() if path.is_dir()] == []
    found = emulator.find(made.cache)
    assert found is not None and found.key == first.key


def test_stable_releases_come_first_in_their_order(made: Made) -> None:
    made.script("patch", 'echo "patched ${4##*/}"')
    made.script("ninja", FAILS)
    with pytest.raises(MachineError) as caught:
        made.build()
    log = next(Path(word[:-1]) for word in caught.value.what.split() if "build.log" in word)
    patched = [line.split()[1] for line in log.read_text().splitlines() if "patched" in line]
    assert patched[:2] == ["v7.2.1.diff", "v7.2.2.diff"]
    assert patched[21:23] == ["v7.2.22.diff", "01-meson-firmware.patch"]


def test_two_at_once_build_once(made: Made) -> None:
    made.script("ninja", f"sleep 0.3\n{NINJA}")
    builds = [threading.Thread(target=made.build) for _ in range(2)]
    for one in builds:
        one.start()
    for one in builds:
        one.join()
    assert made.built == 1
    assert any(said.startswith("waiting for another build") for said in made.said)


def test_who_makes_something_else_does_not_wait_for_it(made: Made) -> None:
    go_on = made.asked.with_name("go on")
    made.script("ninja", f'until [ -e "{go_on}" ]; do sleep 0.01; done\n{NINJA}')
    builds = [threading.Thread(target=made.build, daemon=True) for _ in range(2)]
    builds[0].start()
    until(lambda: "configuring the emulator" in made.said, "a build to begin")
    made.cache.make("images", "key", "an image", lambda _: {})
    made.cache.collect(0)
    assert made.said[-1] == "configuring the emulator" and made.built == 0
    builds[1].start()
    until(lambda: made.said[-1].startswith("waiting for another build"), "the second to wait")
    go_on.touch()
    for one in builds:
        one.join()
    assert made.built == 1 and emulator.find(made.cache) is not None


def test_a_build_that_is_killed_leaves_nothing(made: Made) -> None:
    """Not what it has started either."""
    number = made.asked.with_name("number")
    made.script("ninja", f'echo $$ >"{number}.new"; mv "{number}.new" "{number}"; exec sleep 600')
    build = multiprocessing.get_context("fork").Process(target=made.build)
    build.start()
    until(number.exists, "the last step")
    build.kill()
    build.join()
    place = Path("/proc", number.read_text().strip())
    until(lambda: not place.exists() or "Z" in state(place), "the last step to end")
    assert list(made.cache.root.glob("work/*"))
    made.script("ninja", NINJA)
    assert made.build().program.read_text() == "an emulator\n"
    assert list(made.cache.root.glob("work/*")) == []


def state(process: Path) -> str:
    return (process / "stat").read_text().rpartition(")")[2].split()[0]


def test_a_damaged_one_is_built_again(made: Made) -> None:
    made.build().program.write_bytes(b"other")
    assert made.build().program.read_text() == "an emulator\n"
    assert made.built == 2


def test_without_a_compiler_it_says_what_to_install(
    made: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    (made.bin / "gcc").unlink()
    monkeypatch.setattr(emulator, "_PATH", str(made.bin))
    with pytest.raises(MachineError) as caught:
        made.build()
    assert "no gcc" in caught.value.what
    assert "apt-get install gcc libc6-dev" in str(caught.value.do)


def test_what_does_not_build_is_reported_with_its_log_and_tried_again_when_asked(
    made: Made,
) -> None:
    made.script("ninja", f'echo built >>"{{asked}}"; {FAILS}')
    for _ in range(2):
        with pytest.raises(MachineError) as caught:
            made.build()
        assert "cpu.c:7: error: no such thing\nninja ended with status 9" in caught.value.what
        log = next(Path(word[:-1]) for word in caught.value.what.split() if "build.log" in word)
        assert "configured --target-list=x86_64-softmmu" in log.read_text()
    assert made.built == 1
    made.script("ninja", NINJA)
    assert made.build(again=True).program.is_file()


@pytest.mark.parametrize("changed", ["a patch", "the devices", "the compiler"])
def test_what_decides_is_in_its_key(
    made: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changed: str
) -> None:
    place = tmp_path / "checkout"
    shutil.copytree(emulator.recipe().folder, place / "emulator")
    monkeypatch.setattr(emulator, "CHECKOUT", place)
    before = emulator.recipe().key
    match changed:
        case "a patch":
            (place / "emulator" / "07-more.patch").write_text("more")
        case "the devices":
            (place / "emulator" / "devices.mak").write_text("CONFIG_Q35=y\n")
        case "the compiler":
            made.script("gcc", "echo 'gcc (Debian 14.2.0) 14.2.0'")
    assert emulator.recipe().key != before


def test_progress_says_how_long_it_still_takes() -> None:
    assert emulator.progress_of(300, 1200, 30.0).endswith(
        "300 of 1200 steps, about 1 min 30 s left"
    )
