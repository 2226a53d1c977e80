"""What is inside a kernel's files: the kernel of a bzImage, and modules with what they need.

A bzImage's layout: the kernel's Documentation/arch/x86/boot.rst. An uncompressed kernel with a PVH note
(`XEN_ELFNOTE_PHYS32_ENTRY`, docs/misc/pvh of Xen) starts in a guest several seconds sooner under
emulation, since nothing is decompressed inside. What a module needs stands in the module itself
(`.modinfo`: `depends`, `softdep`), so this works on an unpacked package, where depmod never ran, as on an
installed kernel.
"""

from __future__ import annotations

import lzma
import os
import re
import struct
import zlib
from collections.abc import Callable
from functools import cached_property
from io import BytesIO
from pathlib import Path, PurePosixPath

from hypertare.base.errors import InputError, MachineError

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


_SUFFIXES = (".ko", ".ko.xz", ".ko.zst", ".ko.gz")
_LARGEST_MODULE = 256 << 20


class ModuleTree:
    """The modules of one kernel, under `root` (a `lib/modules/RELEASE`).

    `read` gets a file's content by its path relative to `root`.
    """

    def __init__(self, root: Path, read: Callable[[str], bytes]) -> None:
        self._root = root
        self._read = read
        self._content: dict[str, bytes] = {}

    @cached_property
    def _files(self) -> dict[str, str]:
        """By module, where its file is."""
        return {
            _plain(stem): str((Path(place) / name).relative_to(self._root))
            for place, _, names in os.walk(self._root)
            for name in names
            if (stem := _stem(name))
        }

    @cached_property
    def _builtin(self) -> frozenset[str]:
        try:
            lines = (self._root / "modules.builtin").read_text(encoding="utf-8").splitlines()
        except OSError:
            return frozenset()
        stems = (_stem(PurePosixPath(line.strip()).name) for line in lines)
        return frozenset(_plain(stem) for stem in stems if stem)

    def has(self, name: str) -> bool:
        """Whether the kernel offers this, as a module or built in."""
        return _plain(name) in self._files or _plain(name) in self._builtin

    def load_order(self, name: str) -> list[str]:
        """Names of the modules to load for `name`, in this order; none when it is built in.

        Raises:
            MachineError: the kernel has no such module, or one is damaged.
        """
        order: list[str] = []
        self._visit(_plain(name), order, [])
        return order

    def content(self, name: str) -> bytes:
        """A module's file, uncompressed."""
        plain = _plain(name)
        if plain not in self._content:
            self._content[plain] = _uncompressed(self._files[plain], self._read(self._files[plain]))
        return self._content[plain]

    def _visit(self, name: str, order: list[str], above: list[str]) -> None:
        if name in order or name in above or name in self._builtin:
            return
        if name not in self._files:
            needed = f", which {above[-1]} needs" if above else ""
            raise MachineError(
                f"The kernel has no module {name}{needed}.",
                "Use the distribution's full kernel (`--kernel debian`), not a cloud one.",
            )
        info = _modinfo(name, self.content(name))
        hard = [_plain(n) for line in info.get("depends", []) for n in line.split(",") if n]
        soft = [_plain(n) for line in info.get("softdep", []) for n in _pre(line)]
        # A soft dependency may name an alias, or nothing that this kernel has; it may be left out.
        for needed in [*(n for n in soft if n in self._files), *hard]:
            self._visit(needed, order, [*above, name])
        order.append(name)


def _stem(name: str) -> str | None:
    return next((name.removesuffix(s) for s in _SUFFIXES if name.endswith(s)), None)


def _plain(name: str) -> str:
    return name.strip().replace("-", "_")


def _pre(softdep: str) -> list[str]:
    """The names after `pre:` and before `post:` in a softdep line."""
    words, names, wanted = softdep.split(), [], False
    for word in words:
        if word.endswith(":"):
            wanted = word == "pre:"
        elif wanted:
            names.append(word)
    return names


def _modinfo(name: str, module: bytes) -> dict[str, list[str]]:
    from elftools.common.exceptions import ELFError
    from elftools.elf.elffile import ELFFile

    try:
        section = ELFFile(BytesIO(module)).get_section_by_name(".modinfo")
        data: bytes = section.data() if section else b""
    except (ELFError, ValueError, struct.error, IndexError, UnicodeDecodeError) as error:
        raise _damaged(name, error) from error
    info: dict[str, list[str]] = {}
    for item in data.decode("utf-8", "replace").split("\0"):
        key, equals, value = item.partition("=")
        if equals:
            info.setdefault(key, []).append(value)
    return info


def _uncompressed(name: str, data: bytes) -> bytes:
    import zstandard

    try:
        if name.endswith(".xz"):
            return lzma.decompress(data, lzma.FORMAT_XZ)
        if name.endswith(".gz"):
            return zlib.decompressobj(wbits=31).decompress(data, _LARGEST_MODULE)
        if name.endswith(".zst"):
            return zstandard.ZstdDecompressor().decompressobj().decompress(data)
    except (lzma.LZMAError, zlib.error, zstandard.ZstdError) as error:
        raise _damaged(name, error) from error
    return data


_SIGNED = b"~Module signature appended~\n"
_SIGNATURE_INFO = struct.Struct(">8xI")


def unsigned(module: bytes) -> bytes:
    """The module without the signature that may stand behind it, which takes a booting kernel longer
    to verify than the module to load; a kernel that insists on signatures would not be booted here.

    Format: `struct module_signature` of Linux's include/linux/module_signature.h.
    """
    if not module.endswith(_SIGNED):
        return module
    end = len(module) - len(_SIGNED) - _SIGNATURE_INFO.size
    (size,) = _SIGNATURE_INFO.unpack_from(module, max(0, end))
    return module[: end - size] if 0 < size < end else module


def _damaged(name: str, error: Exception) -> MachineError:
    return MachineError(
        f"The kernel module {name} is damaged: {error}.", "Install that kernel again."
    )
