"""Small made-up programs, kernels and module trees."""

from __future__ import annotations

import gzip
import lzma
import struct
from pathlib import Path

import lz4.block
import zstandard

RELEASE = "6.6.6-made-up"
PVH = (b"Xen\0", 18, struct.pack("<I", 0x1000000))


def elf(
    sections: dict[str, bytes] | None = None,
    note: tuple[bytes, int, bytes] | None = None,
    interpreter: bool = False,
    body: bytes = b"",
) -> bytes:
    """A 64-bit ELF file with these sections and segments."""
    names = b"\0"
    placed = [(0, 0, 0, 0)]
    content = body
    for name, data in {**(sections or {}), ".shstrtab": b""}.items():
        kind = 3 if name == ".shstrtab" else 1
        offset = len(names)
        names += name.encode() + b"\0"
        data = names if kind == 3 else data
        placed.append((offset, kind, len(content), len(data)))
        content += data
    segments = []
    if note:
        owner, kind, description = note
        data = struct.pack("<III", len(owner), len(description), kind) + owner + description
        content += b"\0" * (-len(content) % 4)
        segments.append((4, len(content), len(data)))
        content += data
    if interpreter:
        segments.append((3, len(content), 8))
        content += b"/lib/ld\0"
    base = 64 + 56 * len(segments)
    head = struct.pack(
        "<16sHHIQQQIHHHHHH",
        b"\x7fELF\x02\x01\x01",
        *(2, 62, 1, 0, 64, base + len(content), 0, 64, 56, len(segments), 64, len(placed)),
        len(placed) - 1,
    )
    program = b"".join(
        struct.pack("<IIQQQQQQ", kind, 4, base + at, 0, 0, size, size, 4)
        for kind, at, size in segments
    )
    table = b"".join(
        struct.pack("<IIQQQQIIQQ", name, kind, 0, 0, base + at if kind else 0, size, 0, 0, 1, 0)
        for name, kind, at, size in placed
    )
    return head + program + content + table


def agent(version: str = "1") -> bytes:
    return elf(body=f"agent {version}".encode())


def vmlinux(*, pvh: bool = True, size: int = 300_000) -> bytes:
    body = f"Linux version {RELEASE} (made up)\0".encode() + bytes(range(256)) * (size // 256)
    return elf(note=PVH if pvh else (b"GNU\0", 3, b"1234"), body=body)


def lz4_legacy(data: bytes) -> bytes:
    blocks = [data[at : at + (8 << 20)] for at in range(0, len(data), 8 << 20)]
    packed = [lz4.block.compress(block, store_size=False) for block in blocks]
    return b"\x02\x21\x4c\x18" + b"".join(struct.pack("<I", len(p)) + p for p in packed)


PACKERS = {
    "gzip": gzip.compress,
    "xz": lambda data: lzma.compress(data, check=lzma.CHECK_CRC32),
    "zstd": lambda data: zstandard.ZstdCompressor().compress(data),
    "lz4": lz4_legacy,
}


def bzimage(kernel: bytes, method: str = "gzip") -> bytes:
    """A boot header, the release's text and the packed kernel with its size behind it."""
    packed = PACKERS[method](kernel) + struct.pack("<I", len(kernel))
    setup = bytearray(5 * 512)
    setup[0x1F1] = 4
    setup[0x202:0x206] = b"HdrS"
    text = f"{RELEASE} (made@up) #1 SMP\0".encode()
    struct.pack_into("<H", setup, 0x20E, 0x400)
    setup[0x600 : 0x600 + len(text)] = text
    stub = b"\x90" * 700
    struct.pack_into("<II", setup, 0x248, len(stub), len(packed))
    return bytes(setup) + stub + packed


def module(depends: str = "", softdep: str = "") -> bytes:
    info = f"license=GPL\0depends={depends}\0" + (f"softdep={softdep}\0" if softdep else "")
    return elf(sections={".text": b"\xc3", ".modinfo": info.encode()})


MODULES = {
    "drivers/virtio/virtio.ko": module("virtio_ring"),
    "drivers/virtio/virtio_ring.ko": module(),
    "drivers/virtio/virtio_pci.ko.xz": lzma.compress(module("virtio,virtio_ring")),
    "drivers/char/virtio_console.ko.zst": zstandard.compress(module("virtio_ring,virtio")),
    "drivers/net/virtio_net.ko.gz": gzip.compress(module("virtio", "pre: net-helper gone post: x")),
    "drivers/net/net-helper.ko": module(),
    "fs/broken-need.ko": module("absent"),
    "fs/loop-a.ko": module("loop_b"),
    "fs/loop-b.ko": module("loop_a"),
}


def host(root: Path, kernel: bytes | None = None) -> Path:
    """A boot directory and a module tree below `root`; returns the kernel's path."""
    tree = root / "lib/modules" / RELEASE
    for name, data in MODULES.items():
        path = tree / "kernel" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    (tree / "modules.builtin").write_text("kernel/net/packet/af_packet.ko\n")
    boot = root / "boot" / f"vmlinuz-{RELEASE}"
    boot.parent.mkdir(parents=True)
    boot.write_bytes(kernel or bzimage(vmlinux()))
    return boot
