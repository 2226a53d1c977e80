"""A reader of newc archives, written from the format's description and not from the writer."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Found:
    mode: int
    uid: int
    mtime: int
    links: int
    device: tuple[int, int]
    data: bytes


def read(archive: bytes) -> dict[str, Found]:
    """All members, in order; also of archives one after the other."""
    members: dict[str, Found] = {}
    at = 0
    while at < len(archive):
        head = archive[at : at + 110]
        assert head[:6] == b"070701"
        fields = [int(head[6 + 8 * n : 14 + 8 * n], 16) for n in range(13)]
        _, mode, uid, _, links, mtime, size, _, _, major, minor, length, _ = fields
        name = archive[at + 110 : at + 110 + length]
        assert name.endswith(b"\0")
        begin = (at + 110 + length + 3) & ~3
        data = archive[begin : begin + size]
        assert len(data) == size
        at = (begin + size + 3) & ~3
        if name != b"TRAILER!!!\0":
            text = name[:-1].decode()
            members[text] = Found(mode, uid, mtime, links, (major, minor), data)
    assert at == len(archive)
    return members
