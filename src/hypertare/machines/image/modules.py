"""Kernel modules: from names to files, dependencies first.

What a module needs stands in the module itself (`.modinfo`: `depends`, `softdep`), so this works on
an unpacked package, where depmod never ran, as on an installed kernel.
"""

from __future__ import annotations

import lzma
import os
import struct
import zlib
from collections.abc import Callable
from functools import cached_property
from io import BytesIO
from pathlib import Path, PurePosixPath

from hypertare.base.errors import MachineError

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
