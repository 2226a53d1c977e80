"""Set-up takes a compiler that is new enough, and a Python that everybody can run.

All that `tools/setup` starts is made up here, and says what it was asked.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
TOOLS = ("bash", "cat", "cmp", "cp", "cut", "dirname", "env", "find", "grep", "head", "mkdir", "rm")
TOOLS += ("sed", "sort", "touch", "chmod", "xargs", "sha256sum")
OLD = "cargo 0.66.0"
NEW = "cargo 1.96.0 (30a34c682 2026-05-25)"


class Machine:
    """A Debian of scripts: its programs are these and no others."""

    def __init__(self, place: Path) -> None:
        self.bin = place / "usr" / "bin"
        self.house = place / "opt" / "hypertare"
        self.asked = place / "asked"
        for folder in (self.bin, self.house / "tools", self.house / ".tools" / "bin"):
            folder.mkdir(parents=True)
        for name in ("Cargo.toml", "tools/setup"):
            shutil.copy(ROOT / name, self.house / name)
        for name in ("crates", ".cargo"):
            (self.house / name).mkdir()
        for name in ("requirements.lock", "Cargo.lock", "tools/rustc"):
            (self.house / name).touch()
        for name in TOOLS:
            (self.bin / name).symlink_to(str(shutil.which(name)))
        # Every package is there but Python and the compiler; installing brings what a test says.
        self.script(self.bin / "apt-get", 'case $* in *install*) . "$BROUGHT" ;; esac')
        self.script(
            self.bin / "apt-cache", 'case $* in "policy "*) echo "  Candidate: $OFFERED" ;; esac'
        )
        self.script(
            self.bin / "dpkg-query", "case $4 in *-web|python3*) ;; *) echo ok installed ;; esac"
        )
        self.uv(self.house / ".tools" / "bin" / "uv")
        self.user(0)

    def user(self, uid: int) -> None:
        self.script(self.bin / "id", f"echo {uid}")

    def script(self, path: Path, text: str) -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f'#!/bin/bash\necho "${{0##*/}} $*" >>{self.asked}\n{text}\n')
        path.chmod(0o755)
        return path

    def uv(self, path: Path) -> None:
        """As the real one: what it makes runs the Python that it was given."""
        version = next(
            line.partition("=")[2]
            for line in (ROOT / "tools" / "setup").read_text().splitlines()
            if line.startswith("UV_VERSION")
        )
        self.script(
            path,
            f"case $1 in --version) echo uv {version} ;;\n"
            'venv) mkdir -p .venv/bin; cp "${@: -2:1}" .venv/bin/python\n'
            "echo '#!/bin/bash' >.venv/bin/hypertare; chmod 755 .venv/bin/hypertare ;; esac",
        )

    def cargo(self, folder: Path, version: str) -> Path:
        self.script(folder / "rustc", "")
        return self.script(
            folder / "cargo",
            f'case $1 in --version) echo "{version}" ;; build) echo "built by $0, $RUSTC" ;; esac',
        )

    def python(self, path: Path, version: str, itself: Path | None = None) -> Path:
        """A Python; or what is found in PATH for one that is somewhere else."""
        return self.script(
            path, f"case $2 in *executable*) echo {version}; echo {itself or path} ;; esac"
        )

    def set_up(
        self, *path: Path, offered: str = "(none)", brought: str = "", verb: str = "run"
    ) -> subprocess.CompletedProcess[str]:
        """Runs it with these folders first in PATH; apt offers this cargo-web, and brings what is said."""
        script = self.script(self.bin.parent / "brought", brought)
        folders = ":".join(str(folder) for folder in (*path, self.bin))
        return subprocess.run(
            ["tools/setup", verb],
            cwd=self.house,
            env={"PATH": folders, "OFFERED": offered, "BROUGHT": str(script)},
            capture_output=True,
            text=True,
        )

    def installed(self) -> str:
        """What apt was asked to install."""
        return "".join(
            line for line in self.asked.read_text().splitlines() if "apt-get install" in line
        )


@pytest.fixture
def machine() -> Iterator[Machine]:
    """Not in tmp_path: that is closed to other users, which is what some of the tests are about."""
    with tempfile.TemporaryDirectory() as place:
        Path(place).chmod(0o755)
        yield Machine(Path(place))


@pytest.fixture
def rustup(machine: Machine) -> Path:
    """A folder with a cargo of its own, before Debian's in PATH."""
    machine.python(machine.bin / "python3.11", "3.11")
    return machine.bin.parents[1] / "home" / "bin"


def test_a_cargo_that_is_new_enough_stays(machine: Machine, rustup: Path) -> None:
    cargo = machine.cargo(rustup, NEW)
    ended = machine.set_up(rustup, offered="1.96.0+dfsg1-1~deb12u2")
    assert ended.stdout == f"built by {cargo}, {rustup}/rustc\n"
    assert "cargo" not in machine.installed()


def test_a_newer_cargo_behind_an_old_one_is_taken(machine: Machine, rustup: Path) -> None:
    """With its own compiler, not with the first in PATH."""
    machine.cargo(rustup, OLD)
    machine.cargo(machine.bin, NEW)
    ended = machine.set_up(rustup)
    assert ended.stdout == f"built by {machine.bin}/cargo, {machine.bin}/rustc\n"


@pytest.mark.parametrize("there", [None, OLD, "rustup: no default toolchain"])
def test_debian_has_a_cargo_that_is_new_enough(
    machine: Machine, rustup: Path, there: str | None
) -> None:
    if there:
        machine.cargo(rustup, there)
    coming = machine.cargo(machine.bin.parent / "coming", NEW).parent
    ended = machine.set_up(
        rustup, offered="1.96.0+dfsg1-1~deb12u2", brought=f"cp {coming}/* {machine.bin}"
    )
    assert machine.installed().endswith(" cargo-web rustc-web")
    assert ended.stdout == f"built by {machine.bin}/cargo, {machine.bin}/rustc\n"
    assert ended.returncode == 0


@pytest.mark.parametrize("offered", ["(none)", "1.78.0+dfsg1-2~deb12u3"])
def test_without_any_it_says_what_to_do(machine: Machine, rustup: Path, offered: str) -> None:
    cargo = machine.cargo(rustup, OLD)
    ended = machine.set_up(rustup, offered=offered)
    assert ended.returncode == 3
    assert f"cargo 1.85 or newer is needed, {cargo} is {OLD}" in ended.stderr
    assert "https://rustup.rs" in ended.stderr
    assert not (machine.house / ".venv").exists()


def test_who_is_not_root_is_reported_what_root_has_to_do(machine: Machine, rustup: Path) -> None:
    machine.user(1000)
    ended = machine.set_up(rustup, offered="1.96.0+dfsg1-1~deb12u2")
    assert ended.returncode == 3
    assert ended.stderr == (
        "setup: as root, run: apt-get update && apt-get install -y cargo-web rustc-web\n"
    )


@pytest.fixture
def closed(machine: Machine) -> Path:
    """A folder whose Python is somewhere in a place that is closed to others, as /root is."""
    machine.cargo(machine.bin, NEW)
    roots = machine.bin.parents[1] / "root"
    itself = machine.python(roots / "versions" / "bin" / "python3.11", "3.11")
    roots.chmod(0o700)
    shims = machine.bin.parents[1] / "shims"
    machine.python(shims / "python3.11", "3.11", itself)
    return shims


def test_root_takes_a_python_that_everybody_can_run(machine: Machine, closed: Path) -> None:
    machine.python(machine.bin / "python3", "3.11")
    ended = machine.set_up(closed, verb="install")
    assert f"--python {machine.bin}/python3 .venv" in machine.asked.read_text()
    assert (ended.returncode, "Only root" in ended.stderr) == (0, False)


def test_an_environment_that_only_root_can_run_is_made_again(
    machine: Machine, closed: Path
) -> None:
    machine.user(1000)
    machine.set_up(closed)
    assert f"--python {closed}/python3.11 .venv" in machine.asked.read_text()
    machine.user(0)
    machine.python(machine.bin / "python3", "3.12")
    machine.asked.write_text("")
    machine.set_up(closed)
    assert f"--python {machine.bin}/python3 .venv" in machine.asked.read_text()
    machine.asked.write_text("")
    machine.set_up(closed)
    assert "uv venv" not in machine.asked.read_text()


def test_debians_python_is_installed_where_only_root_can_run_another(
    machine: Machine, closed: Path
) -> None:
    coming = machine.python(
        machine.bin.parent / "coming" / "python3", "3.11", itself=machine.bin / "python3"
    )
    machine.set_up(closed, brought=f"cp {coming} {machine.bin}")
    assert machine.installed().endswith(" python3")
    assert f"--python {machine.bin}/python3 .venv" in machine.asked.read_text()


def test_the_only_python_is_taken_and_it_is_said_for_whom(machine: Machine, closed: Path) -> None:
    machine.python(machine.bin / "python3", "3.9")
    ended = machine.set_up(closed, verb="install")
    assert f"--python {closed}/python3.11 .venv" in machine.asked.read_text()
    assert "Only root can run this hypertare: its Python is " in ended.stderr
    assert "install Debian's python3 (3.11 or newer)" in ended.stderr
    assert ended.returncode == 0


def test_a_checkout_that_is_closed_to_others_is_reported(machine: Machine, rustup: Path) -> None:
    machine.cargo(machine.bin, NEW)
    machine.house.parent.chmod(0o700)
    ended = machine.set_up(verb="install")
    assert f"Only root can run this hypertare: {machine.house.parent} is closed" in ended.stderr
    assert ended.returncode == 0


def test_no_python_at_all(machine: Machine) -> None:
    machine.cargo(machine.bin, NEW)
    machine.python(machine.bin / "python3", "3.9")
    ended = machine.set_up()
    assert (ended.returncode, ended.stderr.splitlines()[-1]) == (
        3,
        "setup: Python 3.11 or newer is needed, and none is in PATH. Install one and try again.",
    )


def test_what_is_compiled_is_not_compiled_twice(machine: Machine, rustup: Path) -> None:
    """By contents: out of an archive, as a cache of CI's, everything has new times."""
    built = machine.house / "target" / "x86_64-unknown-linux-gnu" / "release"
    source = machine.house / "crates" / "a.rs"
    built.mkdir(parents=True)
    for file in (source, built / "hypertare-agent", built / "libhypertare_walk.so"):
        file.write_text("one")
    machine.cargo(rustup, NEW)
    assert "built by" in machine.set_up(rustup).stdout
    for file in (source, built / "hypertare-agent"):
        os.utime(file)
    assert machine.set_up(rustup).stdout == ""
    digest = machine.set_up(rustup, verb="source").stdout
    for file in (source, built / "hypertare-agent"):
        file.write_text("another")
        assert "built by" in machine.set_up(rustup).stdout, file
    assert machine.set_up(rustup).stdout == ""
    assert machine.set_up(rustup, verb="source").stdout not in ("", digest)
