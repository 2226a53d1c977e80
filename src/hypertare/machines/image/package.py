"""Packages and original sources of the distribution, without installing: `apt-get download`, `dpkg-deb -x`.

No list of packages names a source, so its hash stands here: whatever the archive sends, the same bytes come
out or none.
"""

from __future__ import annotations

import email
import errno
import gzip
import hashlib
import re
import shutil
import subprocess
import tarfile
import time
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path, PurePosixPath

from hypertare.base.errors import MachineError
from hypertare.base.host_files import captured
from hypertare.machines.image import cpio
from hypertare.machines.image.cache import Cache, Entry, Progress

_LIMIT_S = 900
# What apt says when another apt is just rewriting the lists.
_REWRITTEN = "could not be parsed or opened"
_RETRIES = 5
_RETRY_S = 1.0
# As root, apt hands downloads to a user that cannot enter private directories, and complains.
_AS_ROOT = ("-o", "APT::Sandbox::User=root")
_APT_GET = ("apt-get", "-q", *_AS_ROOT, "download")
_APT_HELPER = "/usr/lib/apt/apt-helper"
_ADDRESS = re.compile(r"^'([^']+)/[^/']+' ", re.MULTILINE)


@dataclass(frozen=True)
class Package:
    """A package as the distribution's lists describe it. `size` is of the archive, in bytes.

    `depends` has what must be there before it is unpacked, too: essential packages name their
    libraries so.
    """

    name: str
    version: str
    architecture: str
    sha256: str
    size: int
    depends: str

    @property
    def key(self) -> str:
        name = _file_name(f"{self.name}_{self.version}_{self.architecture}")
        return f"{name}-{self.sha256[:12]}"


def look_up(name: str) -> Package:
    """The package that the distribution would install under this name.

    Raises:
        MachineError: no such package, no lists, or no Debian-like host.
    """
    output = _run(["apt-cache", "show", "--no-all-versions", name], f"look up the package {name}")
    stanza = email.message_from_string(output.split("\n\n")[0])
    if not stanza.get("SHA256"):
        raise MachineError(
            f"The package lists hold no downloadable package {name}.",
            "Run `apt-get update` as root, and see that the distribution's archive is in "
            "/etc/apt/sources.list or /etc/apt/sources.list.d.",
        )
    return Package(
        name=stanza["Package"],
        version=stanza["Version"],
        architecture=stanza["Architecture"],
        sha256=stanza["SHA256"],
        size=int(stanza.get("Size", "0")),
        depends=", ".join(filter(None, (stanza.get(f) for f in ("Depends", "Pre-Depends")))),
    )


def fetch(package: Package, cache: Cache, asked: str, progress: Progress) -> Entry:
    """The package unpacked, as a cache entry.

    `asked` is what the user called it, noted so that it is found again without the lists.

    Raises:
        MachineError: the download failed or was damaged; no room.
    """
    entry = cache.find("packages", package.key) or _unpack(package, cache, progress)
    name = cache.find("names", _file_name(asked))
    if name is not None and name.facts["key"] != entry.key:
        cache.drop(name)
        name = None
    if name is None:
        what = f"{asked} is {entry.what}"
        cache.make("names", _file_name(asked), what, lambda _: {"key": entry.key})
    return entry


def fetched(asked: str, cache: Cache) -> Entry | None:
    """The package last fetched under this name; needs neither apt nor a network."""
    name = cache.find("names", _file_name(asked))
    return name and cache.find("packages", name.facts["key"])


def download_beside(name: str, file: str, place: Path) -> Path:
    """A file that lies beside a package in the distribution's archive, such as its source.

    It comes by apt's own ways (mirrors, proxies, credentials), but no list vouches for it: whoever
    asks for it has to know its hash.

    Raises:
        MachineError: the package is unknown, or there is no such file beside it.
    """
    listed = _run(["apt-get", "-q", "--print-uris", "download", name], f"find the package {name}")
    folder = _ADDRESS.search(listed)
    if folder is None:
        raise MachineError(
            f"apt-get does not say where it has the package {name} from.",
            "Run `apt-get update` as root and try again.",
        )
    argv = [_APT_HELPER, *_AS_ROOT, "download-file", f"{folder[1]}/{file}", str(place / file)]
    _run(argv, f"download {file}")
    return place / file


def _unpack(package: Package, cache: Cache, progress: Progress) -> Entry:
    def fill(place: Path) -> dict[str, str]:
        progress(f"downloading {package.name} {package.version} ({package.size >> 20} MB)")
        _run(
            [*_APT_GET, f"{package.name}={package.version}"], f"download {package.name}", cwd=place
        )
        archive = next(place.glob("*.deb"), None)
        if archive is None:
            raise MachineError(f"apt-get download {package.name} left no file.", "Try again.")
        with archive.open("rb") as opened:
            found = hashlib.file_digest(opened, "sha256").hexdigest()
        if found != package.sha256:
            raise MachineError(
                f"{archive.name} is damaged: SHA-256 {found}, the lists say {package.sha256}.",
                "Run `apt-get update` as root and try again.",
            )
        progress(f"unpacking {package.name}")
        _run(["dpkg-deb", "-x", str(archive), str(place)], f"unpack {package.name}")
        archive.unlink()
        return {"name": package.name, "version": package.version, "depends": package.depends}

    return cache.make(
        "packages", package.key, f"package {package.name} {package.version}", fill, progress
    )


def _file_name(text: str) -> str:
    return re.sub(r"[^\w.+~-]", "_", text)


def _run(argv: list[str], aim: str, cwd: Path | None = None) -> str:
    if shutil.which(argv[0]) is None:
        raise MachineError(
            f"Cannot {aim}: this host has no {argv[0]} (it is not Debian or a relative of it).",
            "Of kernels, use this host's own with `--kernel host`, or name one with `--kernel PATH`; "
            "of programs, name this host's by their paths in sut.programs.",
        )
    for attempt in range(1 + _RETRIES):
        if attempt:
            time.sleep(_RETRY_S)
        try:
            done = captured(argv, _LIMIT_S, cwd)
        except subprocess.TimeoutExpired as late:
            raise MachineError(
                f"Cannot {aim}: {argv[0]} took more than {_LIMIT_S} s.", "See to the network."
            ) from late
        if _REWRITTEN not in done.stderr:
            break
    if done.returncode == 0:
        return done.stdout
    if "No space left" in done.stderr or "File too large" in done.stderr:
        raise OSError(errno.ENOSPC, "No space left on device")
    lines = [line for line in done.stderr.splitlines() if line.startswith(("E:", "dpkg-deb:"))]
    said = "; ".join(lines or done.stderr.splitlines()[-1:] or ["no message"])
    unlisted = "No packages found" in done.stderr or "Unable to locate" in done.stderr
    do = (
        "Run `apt-get update` as root; if it is still unknown, correct the name."
        if unlisted
        else "See to the network and to /etc/apt/sources.list, then try again."
    )
    raise MachineError(f"Cannot {aim}: `{' '.join(argv)}` failed: {said}", do)


_MOST = 64 << 20
"""Bytes of one project unpacked."""


@dataclass(frozen=True)
class Source:
    """`file` lies beside the package `package`; `folder` is the one directory in it."""

    name: str
    file: str
    sha256: str
    package: str
    folder: str

    @property
    def key(self) -> str:
        return f"{self.file}-{self.sha256[:12]}"

    def find(self, cache: Cache) -> Entry | None:
        """The file, where it was fetched before."""
        return cache.find("sources", self.key)

    def fetch(self, cache: Cache, progress: Progress, given: Path | None = None) -> Entry:
        """The same, fetched where it is not there or damaged.

        `given`: a directory that may have it, too.

        Raises:
            MachineError: the archive no longer has it, or has something else under its name.
        """

        def fill(place: Path) -> dict[str, str]:
            if given is not None and (given / self.file).is_file():
                shutil.copyfile(given / self.file, place / self.file)
            else:
                progress(f"downloading the source of {self.name}")
                download_beside(self.package, self.file, place)
            found = hashlib.sha256((place / self.file).read_bytes()).hexdigest()
            if found != self.sha256:
                raise MachineError(
                    f"{self.file} is not what it should be: SHA-256 {found}, expected "
                    f"{self.sha256}.",
                    "Try again; if it stays so, whoever it comes from is not to be trusted.",
                )
            return {"name": self.name}

        what = f"source of {self.name}"
        return cache.sound("sources", self.key) or cache.make(
            "sources", self.key, what, fill, progress
        )

    def archive(self, entry: Entry) -> bytes:
        """The project as one tar file.

        Raises:
            MachineError: the file is damaged.
            DamagedError: it is not what was put there.
        """
        packed = entry.read(self.file)
        try:
            with gzip.open(BytesIO(packed)) as opened:
                data = opened.read(_MOST + 1)
        except (OSError, EOFError, zlib.error) as error:
            raise MachineError(f"The source {self.file} is damaged: {error}.") from error
        if len(data) > _MOST:
            raise MachineError(f"The source {self.file} unpacks to more than {_MOST >> 20} MB.")
        return data

    def tree(self, entry: Entry, below: str) -> list[cpio.Member]:
        """The project's files in the directory `below` of an archive; raises as `archive`."""
        try:
            with tarfile.open(fileobj=BytesIO(self.archive(entry))) as opened:
                return list(_files(self, opened, below))
        except tarfile.TarError as error:
            raise MachineError(f"The source {self.file} is damaged: {error}.") from error


BZIP2 = Source(
    name="bzip2 1.0.8",
    file="bzip2_1.0.8.orig.tar.gz",
    sha256="ab5a03176ee106d3f0fa90e381da478ddae405918153cca248e682cd0c4a2269",
    package="bzip2",
    folder="bzip2-1.0.8",
)

MUSL = Source(
    name="musl 1.2.3",
    file="musl_1.2.3.orig.tar.gz",
    sha256="7d5b0b6062521e4627e099e4c9dc8248d32a30285e959b7eecaa780cf8cfd4a4",
    package="musl",
    folder="musl-1.2.3",
)
"""A C library: some 1,300 short files to compile, each by itself."""


def _files(source: Source, opened: tarfile.TarFile, below: str) -> Iterator[cpio.Member]:
    for member in opened:
        content = opened.extractfile(member) if member.isfile() else None
        if content is None:
            continue
        parts = PurePosixPath(member.name).parts
        if parts[0] != source.folder or ".." in parts:
            raise MachineError(f"The source {source.file} has a file outside {source.folder}.")
        executable = bool(member.mode & 0o100)
        yield cpio.file(f"{below}/{member.name}", content.read(), executable=executable)
