"""What is laid out on the host for attempts from inside, and how it fared.

Everything is the test's own, so that an attempt that gets through harms nobody, and it is all taken away
again. What attempts may change of the host itself (`inside.SETTINGS`) is put back.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import shutil
import struct
import subprocess
import sys
import sysconfig
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest
import zstandard

from hypertare.machines.image.build import build
from tests.battery import inside, snapshot
from tests.integration.lab import Lab, Ran, cache, rows, trials

HERE = Path(__file__).parent
SYSTEM_PYTHON = "/usr/bin/python3"
CORE_PATTERN = Path("/proc/sys/kernel/core_pattern")
ORDINARY = 47113
"""A user whom nobody knows: not in any list of users, so without any group or rights."""

KEY_JOIN = 1


@dataclass
class Outside:
    """The host's side of a run: whose it is, what lies where, how it was before."""

    base: Path
    user: int
    token: str
    lab: Lab
    wrap: tuple[str, ...] = ()
    places: dict[str, Path] = field(default_factory=dict)
    loop: dict[str, Any] | None = None
    before: snapshot.Snapshot = field(default_factory=dict)
    settings: dict[str, str] = field(default_factory=dict)
    process: subprocess.Popen[str] | None = None
    victim: dict[str, Any] = field(default_factory=dict)
    key: int = 0
    keyring: int = 0

    # --- the run

    def weigh(self, platforms: str) -> Battered:
        """Carries the battery out on each of the platforms, twice."""
        self.before = self.state()
        run = self.base / "run"
        limits = (
            "--warmup",
            "0",
            "--min-trials",
            "2",
            "--max-trials",
            "2",
            "--memory",
            "256M",
            "--time-limit",
            "1h",
        )
        command = ("--", SYSTEM_PYTHON, "inside.py")
        argv = ("weigh", "--on", platforms, *limits, "--out", run, *command)
        ran = self.lab.run(*argv, wrap=self.wrap, patience_s=560)
        return Battered(ran, run, snapshot.differences(self.before, self.state()))

    def bare(self) -> tuple[Any, list[str]]:
        """The same attempts without any sandbox: what came of them, and what they changed."""
        self.before = self.state()
        argv = [*self.wrap, SYSTEM_PYTHON, "inside.py"]
        ran = subprocess.run(argv, cwd=self.lab.work, capture_output=True, text=True, check=True)
        return json.loads(ran.stdout), snapshot.differences(self.before, self.state())

    def state(self) -> snapshot.Snapshot:
        places = [*self.places.values(), *self.base.glob("*.img"), *self.base.glob("crash*")]
        return {
            **snapshot.take(self.token, places),
            **{f"victim {name}": repr(value) for name, value in self.victim_says().items()},
            "key": key_contents(self.key),
        }

    # --- the baits

    def lay(self) -> None:
        self.key, self.keyring = lay_key(self.token)
        self.start_victim()
        (self.lab.work / "inside.py").write_text((HERE / "inside.py").read_text())
        (self.lab.work / "baits.json").write_text(json.dumps(self.baits()))

    def lay_files(self) -> None:
        names = [*inside.BAITED, "written"]
        for place in self.places.values():
            place.mkdir(parents=True)
            for name in names:
                (place / name).write_bytes(inside.KNOWN)
                with contextlib.suppress(OSError):
                    os.setxattr(place / name, "user.known", b"known")
            (place / "large").write_bytes(inside.KNOWN * 20)
        (self.lab.work / "laid").mkdir()
        for name in names:
            (self.lab.work / "laid" / name).write_text("laid")
        (self.lab.work / "trap-for-the-agent").write_text("laid")
        for place in [self.base, *self.places.values()]:
            give(place, self.user)

    def start_victim(self) -> None:
        command = [SYSTEM_PYTHON, str(HERE / "victim.py"), self.token]
        lively = [str(place) for name, place in self.places.items() if name != "work"]
        self.process = subprocess.Popen(
            [*self.wrap, *command, *lively],
            cwd=self.base,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout
        self.victim = json.loads(self.process.stdout.readline())

    def victim_says(self) -> Any:
        if self.process is None or self.process.poll() is not None:
            return {"lives": False}
        assert self.process.stdin and self.process.stdout
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline() or '{"lives": false}')

    def baits(self) -> dict[str, Any]:
        places = {name: str(place) for name, place in self.places.items()}
        return {
            "token": self.token,
            "places": places,
            "large": [f"{place}/large" for place in places.values()],
            "nodes": [f"{place}/node" for place in places.values()],
            "victim": self.victim,
            "loop": self.loop,
            "key": self.key,
            "keyring": self.keyring,
            "addresses": addresses(),
            "handles": [one for place in self.places.values() for one in handle(place / "handles")],
        }

    # --- the end

    def put_back(self) -> None:
        """What attempts may have changed of the host, if it is not confined."""
        for path, held in self.settings.items():
            if snapshot.contents(Path(path)) != held:
                chosen = held[held.index("[") + 1 : held.index("]")] if "[" in held else held
                with contextlib.suppress(OSError):
                    Path(path).write_text(chosen)

    def note_settings(self) -> None:
        loop = self.loop["path"].rpartition("/")[2] if self.loop else "loop0"
        paths = [inside.setting(name, loop) for name in inside.SETTINGS if name != "binfmt-status"]
        self.settings = {p: snapshot.contents(Path(p)) for p in paths if os.access(p, os.W_OK)}

    def take_away(self) -> None:
        if self.process:
            with contextlib.suppress(BrokenPipeError, subprocess.TimeoutExpired):
                self.process.communicate(timeout=10)
            self.process.kill()
        for place in [self.base, *self.places.values()]:
            for found in place.parent.glob(f"{place.name}*"):
                shutil.rmtree(found, ignore_errors=True)
        for root, folders, _ in os.walk("/sys/fs/cgroup"):
            for name in folders:
                if self.token in name:
                    Path(root, name).rmdir()


@dataclass(frozen=True)
class Battered:
    """What came of the attempts."""

    ran: Ran
    run: Path
    differences: list[str]

    @cached_property
    def reported(self) -> dict[str, list[dict[str, Any]]]:
        """What each trial printed, by platform."""
        found: dict[str, list[dict[str, Any]]] = {}
        kept = dict(rows(self.run, "SELECT trial, zstd FROM record"))
        for trial in trials(self.run):
            lines = zstandard.ZstdDecompressor().decompressobj().decompress(kept[trial[0]])
            for line in lines.splitlines():
                text = json.loads(line).get("text") or {}
                if "stdout" in text:
                    found.setdefault(trial[2], []).append(json.loads(text["stdout"]))
        return found


@contextlib.contextmanager
def outside(user: int, guest: bool = False, bare: bool = False) -> Iterator[Outside]:
    """Lays everything out, and takes it away whatever happens.

    Args:
        user: who runs the command.
        guest: it is run in guests, too.
        bare: it is run outside of any sandbox, where nothing of root's may lie in its way.
    """
    token = f"hypertare-battery-{uuid.uuid4().hex[:10]}"
    base = Path("/tmp") / token
    base.mkdir(mode=0o755)
    with contextlib.ExitStack() as stack:
        stack.callback(shutil.rmtree, base, ignore_errors=True)
        here = of_user(base, user, token, guest)
        here.places = places(base, token)
        stack.callback(here.take_away)
        here.lay_files()
        if os.geteuid() == 0 and not bare:
            stack.enter_context(mounted_below(here.places["mixed"]))
            stack.enter_context(loop_device(here))
            stack.enter_context(core_handler(base))
        here.lay()
        here.note_settings()
        stack.callback(here.put_back)
        yield here


def places(base: Path, token: str) -> dict[str, Path]:
    """Directories of every kind that a command sees."""
    found = {
        "home": base / "home" / "held",
        "work": base / "work" / "held",
        "tmp": Path(f"/tmp/{token}-tmp"),
        "var": Path(f"/var/tmp/{token}"),
        "shm": Path(f"/dev/shm/{token}"),
        "mixed": base / "mixed",
    }
    if os.access("/run", os.W_OK):
        found["run"] = Path(f"/run/{token}")
    return found


# --- another user


def of_user(base: Path, user: int, token: str, guest: bool) -> Outside:
    if user == os.geteuid():
        return Outside(base, user, token, Lab(base))
    env = {"PYTHONPATH": search_path()}
    if guest:
        env["HYPERTARE_CACHE"] = str(cache_of_a_guest(base / "cache"))
    wrap = as_user(user)
    return Outside(base, user, token, Lab(base, env, python=python_for(wrap, env)), wrap)


def cache_of_a_guest(place: Path) -> Path:
    """A copy of what a guest boots from: root's cache is root's alone, and may hold gigabytes."""
    root, image = cache(), build().initramfs.parent
    kernel = root.glob("packages/linux-image-*")
    for part in (root / "names", root / "kernels", root / "modules", *kernel, image):
        shutil.copytree(part, place / part.relative_to(root), symlinks=True)
    return place


def as_user(user: int) -> tuple[str, ...]:
    return ("setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups", "--inh-caps=-all")


def search_path() -> str:
    """This checkout and the packages beside this interpreter: another of its version takes them."""
    return f"{HERE.parents[1] / 'src'}:{sysconfig.get_path('purelib')}"


def python_for(wrap: tuple[str, ...], env: dict[str, str]) -> str:
    """An interpreter that this user may execute: root's own often lies in root's home."""
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    for python in (sys.executable, f"/usr/bin/python{version}"):
        argv = [*wrap, python, "-c", "import hypertare.cli"]
        with contextlib.suppress(OSError):
            if subprocess.run(argv, env={**os.environ, **env}, capture_output=True).returncode == 0:
                return python
    pytest.skip(f"no Python {version} that another user than root may execute has the packages")


def give(place: Path, user: int) -> None:
    """To whoever the run is of, so that nothing but the sandbox is in the way."""
    if os.geteuid() == 0:
        for path in [place, *place.rglob("*")]:
            os.chown(path, user, user, follow_symlinks=False)


# --- what only root can lay


@contextlib.contextmanager
def mounted_below(place: Path) -> Iterator[None]:
    """A mount in a directory: it is not overlaid, and its large files are shown read-only."""
    point = place / "point"
    point.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "none", point], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", point], check=True)


@contextlib.contextmanager
def loop_device(here: Outside) -> Iterator[None]:
    """A disk of the test's own, with known bytes. None where the kernel has no loop devices."""
    image = here.base / "disk.img"
    image.write_bytes(inside.KNOWN * 100)
    made = subprocess.run(["losetup", "--find", "--show", image], capture_output=True, text=True)
    if made.returncode:
        yield
        return
    path = made.stdout.strip()
    number = os.stat(path).st_rdev  # noqa: PTH116
    here.loop = {"path": path, "number": [os.major(number), os.minor(number)]}
    for place in here.places.values():
        with contextlib.suppress(OSError):
            os.mknod(place / "node", 0o060666, number)
            (place / "node").chmod(0o666)
    try:
        yield
    finally:
        subprocess.run(["losetup", "--detach", path], check=True)


@contextlib.contextmanager
def core_handler(base: Path) -> Iterator[None]:
    """The kernel starts it, as root and outside of all namespaces, when a process leaves a core."""
    held = CORE_PATTERN.read_text()
    handler, noted = base / "handler", base / "crash"
    noted.touch()
    handler.write_text(
        f'#!/bin/sh\n[ "$1" = {inside.CRASHING} ] && echo "$1" >> {noted}\ncat > /dev/null\n'
    )
    handler.chmod(0o755)
    CORE_PATTERN.write_text(f"|{handler} %e")
    try:
        yield
    finally:
        CORE_PATTERN.write_text(held)


# --- what the kernel keeps


def lay_key(token: str) -> tuple[int, int]:
    """A key in a session keyring of this process's own, which is inherited as any is."""
    ring = inside.call("keyctl", KEY_JOIN, 0)
    return inside.call("add_key", b"user", token.encode(), b"known", 5, inside.SESSION), ring


def key_contents(key: int) -> str:
    held = ctypes.create_string_buffer(100)
    try:
        inside.call("keyctl", inside.KEY_READ, key, held, 100, 0)
    except OSError as error:
        return f"({error.strerror})"
    return held.value.decode()


def handle(path: Path) -> list[tuple[int, str]]:
    """The number by which its file system finds this file."""
    held = ctypes.create_string_buffer(struct.pack("Ii", 128, 0), 136)
    with contextlib.suppress(OSError):
        mount = ctypes.create_string_buffer(8)
        inside.call("name_to_handle_at", inside.CWD, str(path).encode(), held, mount, 0)
        length, kind = struct.unpack_from("Ii", held)
        return [(kind, held.raw[8 : 8 + length].hex())]
    return []


def addresses() -> list[str]:
    """Of this host, beside its loopback."""
    with contextlib.suppress(OSError):
        shown = subprocess.run(["hostname", "-I"], capture_output=True, text=True).stdout
        return [one for one in shown.split() if ":" not in one]
    return []
