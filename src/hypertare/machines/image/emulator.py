"""The emulator of virtual time: QEMU with the patches and the devices of `emulator/`.

It is built from the original source that the distribution keeps, with headers and build tools of its
packages, unpacked and not installed, and the compiler of this host. One that could not be built is
noted with its log, so that it is not tried again with every run.

QEMU's own stable releases are among the distribution's changes to QEMU, whose file goes from the archive
with each point release. The one that comes in its place has another name and hash, and the same stable
releases with perhaps more. So what is asked for is no file: it is these releases, by a hash over their
text, out of the changes that lie beside the package now.
"""

from __future__ import annotations

import hashlib
import json
import lzma
import os
import re
import shutil
import signal
import subprocess
import tarfile
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from hypertare.base.arch import ARCH
from hypertare.base.errors import MachineError
from hypertare.base.host_files import captured
from hypertare.base.paths import CHECKOUT, PACKAGE
from hypertare.base.units import human_duration
from hypertare.machines.image.cache import Cache, Entry, Progress
from hypertare.machines.image.package import Source, download_beside, look_up
from hypertare.machines.image.userland import fetch_all

RELEASES = "QEMU 7.2.1 to 7.2.22"
RELEASE_FILES = tuple(f"v7.2.{number}.diff" for number in range(1, 23))
RELEASES_SHA256 = "ab5b39d1b15dfd7f217fd84130a4d66605d080bcb4983b555a51068d3bcb2220"
"""Of their texts, one after the other."""

_KEY = f"qemu-stable-{RELEASES_SHA256[:12]}"
_FOLDER = "debian/patches"
_CHANGES = "qemu_7.2+dfsg-*.debian.tar.xz"
_NUMBER = re.compile(r"\d+")
_BUILT_AGAIN = re.compile(r"\+b\d+$")
_MOST = 8 << 20
"""Bytes of one release."""
_DO = (
    "Take a newer hypertare; or a file qemu_7.2+dfsg-...debian.tar.xz from snapshot.debian.org (package "
    "qemu), and name its directory: hypertare image build emulator --sources DIR"
)


def fetch_stable_releases(cache: Cache, progress: Progress, given: Path | None = None) -> Entry:
    """The releases as files, from the cache or out of the distribution's changes.

    `given`: a directory that may have a file of changes, which then is taken.

    Raises:
        MachineError: there are no changes to be had, or not with these releases in them.
    """

    def fill(place: Path) -> dict[str, str]:
        changes = _given(given) or _downloaded(place, progress)
        texts = _releases(changes)
        (place / changes.name).unlink(missing_ok=True)
        for name, text in zip(RELEASE_FILES, texts, strict=True):
            (place / name).write_bytes(text)
        return {"name": RELEASES}

    return cache.sound("sources", _KEY) or cache.make(
        "sources", _KEY, f"source of {RELEASES}", fill, progress
    )


def _given(folder: Path | None) -> Path | None:
    """The newest file of changes in a directory, if it has one."""
    found = folder.glob(_CHANGES) if folder else ()
    return max(found, key=lambda path: [*map(int, _NUMBER.findall(path.name))], default=None)


def _downloaded(place: Path, progress: Progress) -> Path:
    progress(f"downloading the source of {RELEASES}")
    version = _BUILT_AGAIN.sub("", look_up(ARCH.qemu_package).version.partition(":")[2])
    try:
        return download_beside(ARCH.qemu_package, f"qemu_{version}.debian.tar.xz", place)
    except MachineError as error:
        raise MachineError(error.what, " ".join(filter(None, (error.do, _DO)))) from error


def _releases(changes: Path) -> Sequence[bytes]:
    """Their texts. No list vouches for the file: nothing of it is written down before its hash is known."""
    try:
        with tarfile.open(changes, "r:xz") as opened:
            texts = []
            for name in RELEASE_FILES:
                file = opened.extractfile(f"{_FOLDER}/{name}")
                if file is None:
                    raise KeyError(f"{_FOLDER}/{name} is no file")
                texts.append(file.read(_MOST))
    except (OSError, EOFError, KeyError, lzma.LZMAError, tarfile.TarError) as error:
        raise MachineError(f"{changes.name} lacks {RELEASES}: {error}.", _DO) from error
    digest = hashlib.sha256(b"".join(texts)).hexdigest()
    if digest != RELEASES_SHA256:
        raise MachineError(
            f"{changes.name} has other texts of {RELEASES}: SHA-256 {digest}, expected {RELEASES_SHA256}.",
            _DO,
        )
    return texts


VERSION = 3
"""Of the way it is built; part of the key."""

QEMU = Source(
    name="QEMU 7.2",
    file="qemu_7.2+dfsg.orig.tar.xz",
    sha256="91aca71520040edc40b8d437aa3004dae614f58e286cf653ee8996c07af2962f",
    package=ARCH.qemu_package,
    folder="qemu-7.2.0",
)
AGAIN = "hypertare image build emulator"

_PROGRAM = ARCH.qemu
_LOG = "build.log"
_PATH = "/usr/bin:/bin"
_OF_HOST = {
    "gcc": "gcc libc6-dev",
    "make": "make",
    "python3": "python3",
    "tar": "tar",
    "xz": "xz-utils",
}
"""Programs that this host must have, and the packages that they are in."""

_PACKAGES = (
    *("libglib2.0-dev", "libpixman-1-dev", "libfdt-dev", "zlib1g-dev", "libseccomp-dev"),
    *("meson", "ninja-build", "pkgconf-bin", "patch"),
)
_FOLLOWED = re.compile(
    r"lib(glib2\.0-0|pcre2-dev|pcre2-8-0|pixman-1-0|fdt1|seccomp2|pkgconf\d+)(t64)?"
)
"""The dependencies of these packages that are fetched too: libraries to link with, and libraries whose
headers they include.
"""

_DEVICES = f"configs/devices/{ARCH.machine}-softmmu/hypertare.mak"
_OPTIONS = (
    *(f"--target-list={ARCH.machine}-softmmu", "--without-default-features", "--enable-system"),
    *("--enable-tcg", "--disable-kvm", "--enable-fdt=system", "--enable-seccomp"),
    *("--without-default-devices", f"--with-devices-{ARCH.machine}=hypertare"),
    # Firmware is the distribution's, wherever the emulator lies.
    "--firmwarepath=/usr/share/qemu:/usr/share/seabios:/usr/lib/ipxe/qemu",
    *("--datadir=/usr/share", "--disable-install-blobs"),
    *("--disable-debug-info", "--disable-tools", "--disable-docs", "--disable-guest-agent"),
)
_STEP = re.compile(r"^\[(\d+)/(\d+)\] ")
_LAST_LINES = 12
_LIMIT_S = 600
_REPORT_EVERY_S = 0.5


@dataclass(frozen=True)
class Emulator:
    """The emulator in the cache. `key` names all that decides what it does."""

    entry: Entry

    @property
    def key(self) -> str:
        return self.entry.key

    @property
    def program(self) -> Path:
        return self.entry.path / _PROGRAM

    @property
    def content(self) -> str:
        return content()


@dataclass(frozen=True)
class Recipe:
    """All that decides a build of the emulator: the `folder` of patches and devices, and the `compiler`'s
    version.
    """

    folder: Path
    compiler: str

    @property
    def patches(self) -> list[Path]:
        return sorted(self.folder.glob("*.patch"))

    @property
    def devices(self) -> Path:
        return self.folder / "devices.mak"

    @property
    def key(self) -> str:
        return self._digest(self.compiler)

    @property
    def content(self) -> str:
        """Source, patches, devices and options: what decides virtual time, whichever compiler made it."""
        return self._digest()

    def _digest(self, *more: str) -> str:
        parts = [VERSION, QEMU.sha256, RELEASES_SHA256, _OPTIONS, *more]
        digest = hashlib.sha256(json.dumps(parts).encode())
        for path in (*self.patches, self.devices):
            digest.update(path.read_bytes())
        return digest.hexdigest()[:24]


def find(cache: Cache) -> Emulator | None:
    """The emulator, where it was built before.

    Raises:
        MachineError: it cannot be built here, or could not when that was tried.
    """
    entry = cache.sound("emulators", recipe().key)
    return _usable(entry) if entry else None


def build(
    progress: Progress = lambda _: None,
    *,
    cache: Cache | None = None,
    again: bool = False,
    sources: Path | None = None,
) -> Emulator:
    """The emulator, from the cache or built now; `again` tries what has failed before. `sources`: a
    directory with sources that the archive may no longer have.

    Raises:
        MachineError: this host lacks a program, the source or a package cannot be had, or it does not
            build; the error has the last lines of the log.
    """
    store, how = cache or Cache(), recipe()
    entry = store.find("emulators", how.key)
    if again and entry and "reason" in entry.facts:
        store.drop(entry)
    found = store.sound("emulators", how.key) or _make(how, store, progress, sources)
    return _usable(found)


def recipe() -> Recipe:
    """How it is built here.

    Raises:
        MachineError: this host or this installation lacks what is needed.
    """
    folder = _folder()
    missing = [name for name in _OF_HOST if shutil.which(name, path=_PATH) is None]
    if missing:
        packages = " ".join(_OF_HOST[name] for name in missing)
        raise MachineError(
            f"The emulator of virtual time cannot be built: this host has no {', '.join(missing)}.",
            f"As root: apt-get install {packages}; then: {AGAIN}",
        )
    said = captured([_here("gcc"), "--version"], _LIMIT_S).stdout
    return Recipe(folder, said.partition("\n")[0])


def content() -> str:
    """Digest of the emulator of this installation, which need not be built.

    Raises:
        MachineError: this installation lacks what is needed.
    """
    return Recipe(_folder(), compiler="").content


def _folder() -> Path:
    places = (CHECKOUT / "emulator", PACKAGE / "emulator")
    folder = next((place for place in places if (place / "devices.mak").is_file()), None)
    if folder is None:
        raise MachineError(
            "This installation lacks the patches of the emulator.", "Install it anew."
        )
    return folder


def _here(program: str) -> str:
    return shutil.which(program, path=_PATH) or program


def _usable(entry: Entry) -> Emulator:
    """The emulator of an entry.

    Raises:
        MachineError: it could not be built.
    """
    if reason := entry.facts.get("reason"):
        raise MachineError(
            f"The emulator of virtual time does not build. The last lines of {entry.path / _LOG}:\n"
            f"{reason}",
            f"`{AGAIN}` tries again; if it stays so, report it with that file.",
        )
    return Emulator(entry)


class _DoesNotBuildError(Exception):
    """The last lines of its log."""


def _make(how: Recipe, cache: Cache, progress: Progress, given: Path | None) -> Entry:
    packages = fetch_all(
        _PACKAGES, cache, progress, follow=lambda name: _FOLLOWED.fullmatch(name) is not None
    )
    original = QEMU.fetch(cache, progress, given)
    stable = fetch_stable_releases(cache, progress, given)

    def fill(place: Path) -> dict[str, str]:
        work = place / "work"
        try:
            building = _Building(work, place / _LOG, [entry.path for entry in packages], progress)
            shutil.copyfile(building.program(how, original, stable), place / _PROGRAM)
        except _DoesNotBuildError as why:
            return {"reason": str(why)}
        finally:
            shutil.rmtree(work, ignore_errors=True)
        # QEMU runs as a user of its own.
        (place / _PROGRAM).chmod(0o755)
        return {"compiler": how.compiler}

    what = f"emulator of virtual time, {QEMU.name}"
    return cache.make("emulators", how.key, what, fill, progress)


class _Building:
    """One build below `work`."""

    def __init__(self, work: Path, log: Path, packages: Sequence[Path], progress: Progress) -> None:
        self._log = log
        self._progress = progress
        self._last: deque[str] = deque(maxlen=_LAST_LINES)
        self._tree = work / "packages"
        self._tree.mkdir(parents=True)
        self._source = work / QEMU.folder
        for package in packages:
            shutil.copytree(package, self._tree, symlinks=True, dirs_exist_ok=True)

    def program(self, how: Recipe, original: Entry, stable: Entry) -> Path:
        """Its file, once all is done.

        Raises:
            _DoesNotBuildError: a step has failed.
        """
        self._progress(f"unpacking {QEMU.name}")
        packed = str(original.path / QEMU.file)
        self._run(["tar", "-x", "-J", "--no-same-owner", "-f", packed], self._source.parent)
        releases = [stable.path / name for name in RELEASE_FILES]
        for patch in (*releases, *how.patches):
            self._run(["patch", "-p1", "--force", "--input", str(patch)], self._source)
        shutil.copyfile(how.devices, self._source / _DEVICES)
        self._progress("configuring the emulator")
        place = self._source / "build"
        place.mkdir()
        self._run(["../configure", *_OPTIONS, f"--extra-cflags=-I{self._tree}/usr/include"], place)
        self._run(["ninja", _PROGRAM], place)
        self._run(["strip", _PROGRAM], place)
        return place / _PROGRAM

    def _environment(self) -> dict[str, str]:
        packages = self._tree / ARCH.libraries
        return {
            "LC_ALL": "C",
            "HOME": str(self._tree),
            "PATH": f"{self._tree}/usr/bin:{_PATH}",
            "LD_LIBRARY_PATH": str(packages),
            # To link with. As the compiler's own place of libraries, so that meson does not have the
            # program look for them there when it runs: the place is gone then (RUNPATH).
            "LIBRARY_PATH": str(packages),
            "PYTHONPATH": str(self._tree / "usr/lib/python3/dist-packages"),
            "PYTHONDONTWRITEBYTECODE": "1",
            "PKG_CONFIG": "pkgconf",
            "PKG_CONFIG_LIBDIR": f"{packages}/pkgconfig:{self._tree}/usr/share/pkgconfig",
            "PKG_CONFIG_SYSROOT_DIR": str(self._tree),
        }

    def _run(self, argv: list[str], where: Path) -> None:
        """A step, into the log."""
        began = reported = time.monotonic()
        program = shutil.which(argv[0], path=f"{self._tree}/usr/bin:{_PATH}") or argv[0]
        process = subprocess.Popen(
            # If we are killed, so is it.
            [_here("setpriv"), "--pdeathsig", "KILL", program, *argv[1:]],
            cwd=where,
            env=self._environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
        )
        assert process.stdout is not None
        try:
            with self._log.open("a", encoding="utf-8") as log:
                for line in process.stdout:
                    log.write(line)
                    self._last.append(line.rstrip())
                    if (
                        step := _STEP.match(line)
                    ) and time.monotonic() - reported > _REPORT_EVERY_S:
                        reported = time.monotonic()
                        self._progress(progress_of(int(step[1]), int(step[2]), reported - began))
            status = process.wait()
        finally:
            # Whatever ends us ends what it has started, too.
            if process.returncode is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
            process.stdout.close()
        if status != 0:
            raise _DoesNotBuildError(
                "\n".join([*self._last, f"{argv[0]} ended with status {status}"])
            )


def progress_of(done: int, of: int, seconds: float) -> str:
    """How far it is after so many seconds, and how long the rest takes if it goes on like that."""
    left = seconds * (of - done) / done if done else 0.0
    return f"building the emulator: {done} of {of} steps, about {human_duration(left)} left"
