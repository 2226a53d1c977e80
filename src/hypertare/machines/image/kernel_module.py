"""The project's own kernel module (`kernel/`), built for a guest's kernel.

It is built against that kernel's headers: those of the distribution's packages, unpacked and not
installed, or `lib/modules/RELEASE/build` beside a kernel from elsewhere. Where it cannot be built
the image does without, and holds the reason: what needs the module then says it.
"""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from hypertare.base.errors import MachineError
from hypertare.base.paths import CHECKOUT, PACKAGE
from hypertare.base.programs import captured
from hypertare.machines.image.cache import Cache, Entry, Progress
from hypertare.machines.image.kernel import KernelSource
from hypertare.machines.image.package import Package, fetch, look_up

_MODULE_VERSION = 1
"""Of the way it is built; part of every key."""

_LIMIT_S = 300
_AGAIN = "`hypertare image build --refresh` tries again."


@dataclass(frozen=True)
class Built:
    """A module's file, or the reason why there is none."""

    name: str
    entry: Entry

    @property
    def reason(self) -> str | None:
        return self.entry.facts.get("reason")

    @property
    def digest(self) -> str:
        """Of what goes into an image."""
        return self.reason or self.entry.digests.get(_file(self.name), "")

    def content(self) -> bytes:
        """The module.

        Raises:
            DamagedError: it is not what was put there.
        """
        return self.entry.read(_file(self.name))


class _UnavailableError(Exception):
    """It cannot be built here; the message says why and what to do."""


def find_module(name: str, source: KernelSource, cache: Cache) -> Built | None:
    """The module, or why there is none, when that is known without building."""
    entry = cache.sound("modules", _key(name, source))
    return Built(name, entry) if entry else None


def make_module(name: str, source: KernelSource, cache: Cache, progress: Progress) -> Built:
    """Builds the module, or notes why it cannot be had."""

    def fill(place: Path) -> dict[str, str]:
        try:
            (place / _file(name)).write_bytes(_build(name, source, cache, place, progress))
        except _UnavailableError as why:
            return {"reason": " ".join(str(why).split())}
        return {}

    what = f"module {name} for {source.name}"
    return Built(name, cache.make("modules", _key(name, source), what, fill, progress))


def _file(name: str) -> str:
    return f"{name}.ko"


def _key(name: str, source: KernelSource) -> str:
    digest = hashlib.sha256(
        f"{_MODULE_VERSION} {name} {source.digest} {source.modules_digest}".encode()
    )
    for path in sources(name):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:24]


def sources(name: str) -> list[Path]:
    """`kernel/` of this checkout, or of the installed package."""
    places = (CHECKOUT / "kernel", PACKAGE / "kernel")
    files = ([place / "Kbuild", place / f"{name}.c"] for place in places)
    return next((found for found in files if all(path.is_file() for path in found)), [])


def _build(name: str, source: KernelSource, cache: Cache, place: Path, progress: Progress) -> bytes:
    work = place / "work"
    try:
        if not sources(name):
            raise _UnavailableError(f"this installation lacks the source of {name}")
        # The directory to build in, and the compiler that the kernel was built with.
        if source.package:
            headers, compiler = _packaged_headers(source.package, cache, work, progress)
        elif source.headers:
            headers, compiler = source.headers, _compiler(None)
        else:
            raise _UnavailableError(
                f"the kernel {source.name} has no headers beside it (lib/modules/RELEASE/build). "
                "Use the distribution's kernel (`--kernel debian`), or install its headers."
            )
        progress(f"building the kernel module {name}")
        module = work / "module"
        module.mkdir(parents=True)
        for path in sources(name):
            shutil.copy(path, module / path.name)
        _run(["make", "-C", str(headers), f"M={module}", f"CC={compiler}", "modules"], name)
        # Debugging sections name the directory of the build: without them its bytes are the same anywhere.
        _run(["strip", "--strip-debug", str(module / _file(name))], name)
        return (module / _file(name)).read_bytes()
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _packaged_headers(
    image: Entry, cache: Cache, work: Path, progress: Progress
) -> tuple[Path, str]:
    name = image.facts["name"].replace("linux-image-", "linux-headers-").removesuffix("-unsigned")
    try:
        own = look_up(name)
        if own.version != image.facts["version"]:
            raise _UnavailableError(
                f"the distribution has the headers of {own.version}, and the kernel is "
                f"{image.facts['version']}. {_AGAIN}"
            )
        compiler = _compiler(compiler_of(own))
        common = look_up(_needed(own, r"linux-headers-[\w.+~-]+-common(?:-rt)?"))
        kbuild = look_up(_needed(own, r"linux-kbuild-[\w.+~-]+"))
        entries = [fetch(each, cache, each.name, progress) for each in (own, common, kbuild)]
    except MachineError as error:
        raise _UnavailableError(f"its kernel's headers cannot be had: {error}. {_AGAIN}") from error
    return _joined([entry.path for entry in entries], name, work), compiler


def compiler_of(headers: Package) -> str | None:
    """The version of gcc that the kernel was built with, as its headers name it: by a package of its
    own, and from Linux 7 on by the compiler itself."""
    found = re.search(r"(?:linux-compiler-)?gcc-(\d+)-(?:x86|for-host)", headers.depends)
    return found and found[1]


def _needed(package: Package, pattern: str) -> str:
    found = re.search(pattern, package.depends)
    if found is None:
        raise _UnavailableError(
            f"the package {package.name} does not say which {pattern} it belongs to"
        )
    return found[0]


def _joined(unpacked: list[Path], name: str, work: Path) -> Path:
    """The packages as if installed below `work`: they name each other by absolute paths.

    Only directories are made anew; files are links, but for the one that holds such a path.
    """
    for package in unpacked:
        for parent in (package / "usr/src", package / "usr/lib"):
            for tree in sorted(parent.glob("linux-*")):
                if tree.is_symlink():
                    continue
                place = work / tree.relative_to(package)
                place.mkdir(parents=True)
                for child in sorted(tree.iterdir()):
                    (place / child.name).symlink_to(
                        child.readlink() if child.is_symlink() else child
                    )
    headers = work / "usr/src" / name
    makefile = headers / "Makefile"
    text = makefile.read_text(encoding="utf-8").replace("/usr/src/", f"{work}/usr/src/")
    makefile.unlink()
    makefile.write_text(text, encoding="utf-8")
    return headers


def _compiler(major: str | None) -> str:
    """A gcc of the version that the kernel was built with: its plugins and options depend on it."""
    if shutil.which("make") is None:
        raise _UnavailableError(
            f"this host has no make. Install gcc-{major or '12'} and make; {_AGAIN}"
        )
    names = [f"gcc-{major}", "gcc"] if major else ["gcc"]
    for name in filter(shutil.which, names):
        found = captured([name, "-dumpversion"], _LIMIT_S)
        if major is None or found.stdout.split(".")[0].strip() == major:
            return name
    raise _UnavailableError(
        f"this host has no gcc{'-' + major if major else ''}, which built the kernel. "
        f"Install it; {_AGAIN}"
    )


def _run(argv: list[str], name: str) -> None:
    try:
        done = captured(argv, _LIMIT_S)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise _UnavailableError(f"{name} could not be built: {error}. {_AGAIN}") from error
    if done.returncode != 0:
        lines = [line for line in done.stderr.splitlines() if "error" in line.lower()]
        said = (lines or done.stderr.splitlines()[-1:] or ["no message"])[0]
        raise _UnavailableError(f"{name} could not be built: {said}. {_AGAIN}")
