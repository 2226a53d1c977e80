"""A root of its own for commands that are to run with the programs of an image, not with this host's.

QEMU and the plugin are put into it beside the programs, with such libraries of theirs as the image
lacks: nothing is mounted, and nothing of this host is seen or changed.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path

from hypertare.base import paths
from hypertare.base.arch import ARCH
from hypertare.base.errors import MachineError
from hypertare.machines.image import cpio
from hypertare.walk.run import OWN_FILES, qemu

_LIBRARY = re.compile(r"^\s*(\S+) => (/\S+)", re.MULTILINE)


def make_root(folder: Path, members: Iterable[cpio.Member]) -> None:
    """Fills a folder with an image's members and what the model needs to run among them.

    Raises:
        MachineError: QEMU's user mode or the plugin is not there, or the folder cannot be filled.
    """
    own = folder / OWN_FILES
    try:
        cpio.unpack(members, folder)
        own.mkdir()
        (folder / "proc").mkdir(exist_ok=True)
        (folder / "tmp").mkdir(mode=0o1777, exist_ok=True)
        shutil.copy(qemu(), own / ARCH.qemu_user)
        shutil.copy(paths.walk_plugin(), own / paths.WALK_PLUGIN)
        for name, library in _libraries(qemu(), paths.walk_plugin()):
            place = folder / ARCH.libraries / name
            if not place.exists():
                place.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(library, place)
    except OSError as error:
        raise MachineError(
            f"The programs cannot be laid out in {folder}: {error.strerror}.",
            "Make room there, or name another place with TMPDIR.",
        ) from error


def _libraries(*files: Path) -> Iterator[tuple[str, Path]]:
    """What this host loads with the files, by soname."""
    done = subprocess.run(["ldd", *map(str, files)], capture_output=True, text=True)
    if done.returncode:
        raise MachineError(f"ldd {files[0]} failed: {done.stderr.strip()}")
    for name, library in _LIBRARY.findall(done.stdout):
        yield name, Path(library)
