"""A project's source as its authors released it, out of the distribution's archive.

The distribution keeps the original file beside the packages made of it. No list of packages names
it, so its hash stands here: whatever the archive sends, the same bytes come out or none.
"""

from __future__ import annotations

import gzip
import hashlib
import shutil
import tarfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path, PurePosixPath

from hypertare.base.errors import MachineError
from hypertare.machines.image import cpio
from hypertare.machines.image.cache import Cache, Entry, Progress
from hypertare.machines.image.package import download_beside

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
