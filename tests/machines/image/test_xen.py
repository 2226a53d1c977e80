from __future__ import annotations

import gzip
import hashlib
import struct
from io import BytesIO
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile

from hypertare.base.errors import MachineError
from hypertare.machines.image import kernel, vmm
from hypertare.machines.image.cache import Cache


def entry(cache: Cache, files: dict[str, bytes]):
    def fill(place: Path) -> dict[str, str]:
        for name, data in files.items():
            (place / name).parent.mkdir(parents=True, exist_ok=True)
            (place / name).write_bytes(data)
        return {"name": "xen-hypervisor", "version": "4.17.0", "depends": ""}

    key = hashlib.sha256(repr(files).encode()).hexdigest()
    return cache.make("packages", key, "a package", fill)


def test_only_what_is_loaded_of_a_kernel_stays() -> None:
    """Not its symbols, not the zeros behind its data, nor the gaps before its segments."""
    data, notes = b"\x90" * 5000 + bytes(100) + b"notes" + bytes(95), (2 << 20) + 5100
    whole = made_elf((1, 2 << 20, data, 5200), (1, (4 << 20) + 24, b"data" + bytes(9000), 20000))
    whole = with_notes(whole, notes, 5) + b"symbols"
    cut = kernel.loadable(whole)
    assert len(cut) < 4 * 4096
    before, after = ELFFile(BytesIO(whole)), ELFFile(BytesIO(cut))
    assert after.num_sections() == 0
    text, bss, note = after.iter_segments()
    assert (text.data(), bss.data(), note.data()) == (data.rstrip(b"\0"), b"data", b"notes")
    for one, other in zip(before.iter_segments(), after.iter_segments(), strict=True):
        for field in ("p_type", "p_flags", "p_vaddr", "p_paddr", "p_memsz"):
            assert one[field] == other[field]
        assert (one["p_offset"] - other["p_offset"]) % 4096 == 0


def made_elf(*segments: tuple[int, int, bytes, int]) -> bytes:
    """A file with these segments and one header more: type, offset, content, bytes of memory."""
    count = len(segments) + 1
    ident = b"\x7fELF\x02\x01\x01" + bytes(9)
    rest = struct.pack("<HHIQQQIHHHHHH", 2, 62, 1, 0x1000000, 64, 1, 0, 64, 56, count, 64, 3, 2)
    file = bytearray(ident + rest)
    for kind, offset, data, memory in segments:
        file += struct.pack(
            "<IIQQQQQQ", kind, 5, offset, offset, offset, len(data), memory, 1 << 21
        )
    file += bytes(56)
    for _, offset, data, _ in segments:
        file += bytes(offset - len(file)) + data
    return bytes(file)


def with_notes(file: bytes, offset: int, size: int) -> bytes:
    """The same with its last header that of notes within a segment."""
    at = 64 + 56 * 2
    header = struct.pack("<IIQQQQQQ", 4, 4, offset, offset, offset, size, size, 4)
    return file[:at] + header + file[at + 56 :]


def test_what_is_no_kernel_is_refused() -> None:
    with pytest.raises(MachineError, match="cannot boot"):
        kernel.loadable(b"not an ELF file")
    small = b"\x7fELF\x01\x01\x01" + bytes(9) + struct.pack("<HHIIIIIHHHHHH", 2, 3, 1, *[0] * 10)
    with pytest.raises(MachineError, match="of 32 bits, and 64 are needed"):
        kernel.loadable(small)


def test_the_hypervisor_is_unpacked(tmp_path) -> None:
    name = f"boot/xen-{vmm.XEN_RELEASE}-amd64.gz"
    cache = Cache(tmp_path)
    packed = entry(cache, {name: gzip.compress(b"\x7fELF" + bytes(100))})
    assert vmm.Xen(packed, ()).kernel() == b"\x7fELF" + bytes(100)
    assert vmm.Xen(packed, ()).name == "Xen 4.17.0"
    for data in (b"\x1f\x8bdamaged", gzip.compress(b"no program")):
        with pytest.raises(MachineError, match=r"4\.17\.0"):
            vmm.Xen(entry(cache, {name: data}), ()).kernel()


P2M = bytes.fromhex(
    # mov $0x8000000,%edx; movq $2,(rip); cmp %rdx,%rax; mov %rax,(rip); cmovb %rdx,%rax
    "ba00000008 48c7056f63290002000000 4839d0 4889058d632900 480f42c2"
    # lea 0x1fffff(,%rax,8),%rax; and $0xffffffffffe00000,%rax
    "488d04c5ffff1f00 482500 00e0ff"
)


def test_the_table_of_pages_is_made_smaller_where_it_is_found_once() -> None:
    kernel = b"before" + P2M + b"after \xba\x00\x00\x00\x08"
    made = vmm.quick_to_boot(kernel)
    assert len(made) == len(kernel)
    differing = [place for place, (a, b) in enumerate(zip(kernel, made, strict=True)) if a != b]
    assert differing == [9, 10]
    assert int.from_bytes(made[7:11], "little") << 12 == vmm.P2M_LIMIT
    for unlike in (b"", b"\xba\x00\x00\x00\x08", P2M + P2M, P2M.replace(b"\x0f\x42", b"\x0f\x47")):
        assert vmm.quick_to_boot(unlike) == unlike
