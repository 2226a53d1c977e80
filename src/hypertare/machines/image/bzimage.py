"""What is inside a bzImage, and whether QEMU can start it directly.

Layout: the kernel's Documentation/arch/x86/boot.rst. An uncompressed kernel with a PVH note
(`XEN_ELFNOTE_PHYS32_ENTRY`, docs/misc/pvh of Xen) starts in a guest several seconds sooner under
emulation, since nothing is decompressed inside.
"""

from __future__ import annotations

import lzma
import re
import struct
import zlib
from io import BytesIO

from hypertare.base.errors import InputError

_MAGIC = b"HdrS"
_PVH_NOTE = 18
_LZ4_LEGACY = b"\x02\x21\x4c\x18"
_LZ4_BLOCK = 8 << 20
_RELEASE = re.compile(rb"Linux version (\S+) ")
_LARGEST = 1 << 30


def is_bzimage(data: bytes) -> bool:
    return data[0x202:0x206] == _MAGIC


def is_elf(data: bytes) -> bool:
    return data.startswith(b"\x7fELF")


def payload(data: bytes) -> bytes:
    """The compressed kernel inside a bzImage.

    Raises:
        InputError: the header is not that of a bzImage, or points outside the file.
    """
    if not is_bzimage(data) or len(data) < 0x250:
        raise InputError("It is no bzImage: the boot header is missing.")
    sectors = data[0x1F1] or 4
    offset, length = struct.unpack_from("<II", data, 0x248)
    begin = (sectors + 1) * 512 + offset
    if not length or begin + length > len(data):
        raise InputError("Its boot header points outside the file: it is cut off or damaged.")
    return data[begin : begin + length]


def decompress(packed: bytes) -> bytes:
    """A kernel's payload, whichever of gzip, xz, zstd or lz4 it was packed with.

    The build appends the unpacked size to the stream, which the decompressors leave over.

    Raises:
        InputError: another method, or damaged data.
    """
    method = next((m for magic, m in _METHODS.items() if packed.startswith(magic)), None)
    if method is None:
        raise InputError(f"It is compressed in an unknown way (starts with {packed[:6].hex()}).")
    try:
        return method(packed)
    except (zlib.error, lzma.LZMAError, ValueError, struct.error) as error:
        raise InputError(f"Its compressed kernel is damaged: {error}.") from error


def release_of(data: bytes) -> str | None:
    """The kernel's release (`uname -r`), from a bzImage's header or an uncompressed kernel."""
    if is_bzimage(data):
        (pointer,) = struct.unpack_from("<H", data, 0x20E)
        text = data[pointer + 0x200 : pointer + 0x400] if pointer else b""
        word = text.split(b"\0")[0].split(b" ")[0]
        return word.decode("ascii", "replace") or None
    found = _RELEASE.search(data)
    return found[1].decode("ascii", "replace") if found else None


def has_pvh_entry(vmlinux: bytes) -> bool:
    """Whether QEMU can enter this uncompressed kernel directly."""
    from elftools.common.exceptions import ELFError
    from elftools.elf.elffile import ELFFile
    from elftools.elf.segments import NoteSegment

    try:
        segments = [
            s for s in ELFFile(BytesIO(vmlinux)).iter_segments() if isinstance(s, NoteSegment)
        ]
        notes = [note for segment in segments for note in segment.iter_notes()]
    except (ELFError, ValueError, struct.error, IndexError, UnicodeDecodeError):
        return False
    # A number, since pyelftools has no name for it.
    kinds: list[object] = [note["n_type"] for note in notes if note["n_name"] == "Xen"]
    return _PVH_NOTE in kinds


def _ungzip(packed: bytes) -> bytes:
    stream = zlib.decompressobj(wbits=31)
    return _whole(stream.decompress(packed, _LARGEST), stream.eof)


def _unxz(packed: bytes) -> bytes:
    stream = lzma.LZMADecompressor(lzma.FORMAT_XZ)
    return _whole(stream.decompress(packed, _LARGEST), stream.eof)


def _unzstd(packed: bytes) -> bytes:
    import zstandard

    stream = zstandard.ZstdDecompressor().decompressobj()
    try:
        return _whole(stream.decompress(packed), stream.eof)
    except zstandard.ZstdError as error:
        raise ValueError(str(error)) from error


def _unlz4(packed: bytes) -> bytes:
    import lz4.block

    parts: list[bytes] = []
    at = len(_LZ4_LEGACY)
    # A block is its length and its data; what is left at the end is the unpacked size alone.
    while at + 8 <= len(packed):
        (length,) = struct.unpack_from("<I", packed, at)
        block = packed[at + 4 : at + 4 + length]
        try:
            parts.append(lz4.block.decompress(block, uncompressed_size=_LZ4_BLOCK))
        except lz4.block.LZ4BlockError as error:
            raise ValueError(str(error)) from error
        at += 4 + length
    return _whole(b"".join(parts), at <= len(packed))


def _whole(data: bytes, ended: bool) -> bytes:
    if not ended:
        raise ValueError("it ends too early")
    return data


_METHODS = {
    b"\x1f\x8b": _ungzip,
    b"\xfd7zXZ\0": _unxz,
    b"\x28\xb5\x2f\xfd": _unzstd,
    _LZ4_LEGACY: _unlz4,
}
