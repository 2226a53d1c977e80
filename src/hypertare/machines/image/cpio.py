"""The newc archive that the kernel unpacks as its first root.

Format: the kernel's Documentation/driver-api/early-userspace/buffer-format.rst. The same content
gives the same bytes: sorted names, no times, everything root's. The kernel takes archives one after
the other, so what changes per run is a second, tiny archive behind the first.
"""

from __future__ import annotations

import stat
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from hypertare.base.errors import InputError

_TRAILER = "TRAILER!!!"
_LIMIT = 0xFFFFFFFF
_PAGE = 4096


@dataclass(frozen=True)
class Member:
    """One name in the archive. `mode` carries the type; `data` is a link's target for a link."""

    path: str
    mode: int
    data: bytes = b""
    device: tuple[int, int] = (0, 0)


def file(path: str, data: bytes, *, executable: bool = False) -> Member:
    return Member(path, stat.S_IFREG | (0o755 if executable else 0o644), data)


def directory(path: str, mode: int = 0o755) -> Member:
    return Member(path, stat.S_IFDIR | mode)


def link(path: str, target: str) -> Member:
    return Member(path, stat.S_IFLNK | 0o777, target.encode())


def device(path: str, major: int, minor: int, mode: int = 0o600) -> Member:
    """A character device."""
    return Member(path, stat.S_IFCHR | mode, device=(major, minor))


def archive(members: Iterable[Member]) -> bytes:
    """One archive of these members and of the directories above them.

    Raises:
        InputError: a name twice, an unsafe name, or a file beyond the format's 4 GiB.
    """
    tree: dict[PurePosixPath, Member] = {}
    for member in members:
        path = _inside(member.path)
        if path in tree:
            raise InputError(f"The archive would hold {path} twice.")
        tree[path] = member
    for path in list(tree):
        for parent in path.parents[:-1]:
            tree.setdefault(parent, directory(str(parent)))
    # Sorted by parts, a directory stands before what is in it, as the kernel needs it.
    ordered = sorted(tree.items(), key=lambda item: item[0].parts)
    records = [_record(str(path), member, ino) for ino, (path, member) in enumerate(ordered, 1)]
    return b"".join(records) + _record(_TRAILER, Member(_TRAILER, 0), 0)


def unpack(members: Iterable[Member], folder: Path) -> None:
    """Puts files, directories and links into a folder of this host, as the kernel would at its root.

    Links come last, so that nothing is written through one: they lead to places of that root.

    Raises:
        InputError: an unsafe name.
        OSError: it cannot be written.
    """
    for member in sorted(members, key=lambda one: stat.S_ISLNK(one.mode)):
        path = folder / _inside(member.path)
        path.parent.mkdir(parents=True, exist_ok=True)
        if stat.S_ISLNK(member.mode):
            path.symlink_to(member.data.decode())
        elif stat.S_ISDIR(member.mode):
            path.mkdir(exist_ok=True)
        elif stat.S_ISREG(member.mode):
            path.write_bytes(member.data)
            path.chmod(stat.S_IMODE(member.mode))


def unpacked(members: Iterable[Member]) -> int:
    """Bytes of memory that the files take once the kernel has unpacked them: whole pages."""
    sizes = (len(member.data) for member in members if stat.S_ISREG(member.mode))
    return sum(-(-size // _PAGE) * _PAGE for size in sizes)


def _inside(path: str) -> PurePosixPath:
    inside = PurePosixPath(path.lstrip("/"))
    if not inside.parts or ".." in inside.parts or str(inside) == _TRAILER:
        raise InputError(f"{path!r} cannot be a name in an archive.")
    return inside


def _record(name: str, member: Member, ino: int) -> bytes:
    if len(member.data) > _LIMIT:
        raise InputError(f"{name} is too large for an initramfs: {len(member.data)} bytes.")
    encoded = name.encode() + b"\0"
    links = 2 if stat.S_ISDIR(member.mode) else 1
    fields = (
        *(ino, member.mode, 0, 0, links, 0, len(member.data)),
        *(0, 0, *member.device, len(encoded), 0),
    )
    head = b"070701" + b"".join(b"%08X" % field for field in fields) + encoded
    return _padded(head) + _padded(member.data)


def _padded(data: bytes) -> bytes:
    return data + b"\0" * (-len(data) % 4)
