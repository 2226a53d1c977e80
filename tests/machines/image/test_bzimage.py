import pytest

from hypertare.base.errors import InputError
from hypertare.machines.image import kernel_files
from tests.machines.image import factory


@pytest.mark.parametrize("method", factory.PACKERS)
def test_every_compression_is_undone(method):
    kernel = factory.vmlinux()
    packed = factory.bzimage(kernel, method)
    assert kernel_files.decompress(kernel_files.payload(packed)) == kernel


def test_lz4_of_several_blocks():
    kernel = factory.vmlinux(size=20 << 20)
    assert kernel_files.decompress(kernel_files.payload(factory.bzimage(kernel, "lz4"))) == kernel


@pytest.mark.parametrize("method", factory.PACKERS)
def test_damaged_payload_is_said_so(method):
    packed = bytearray(kernel_files.payload(factory.bzimage(factory.vmlinux(), method)))
    packed[8 : len(packed) // 2] = b"\xff" * (len(packed) // 2 - 8)
    with pytest.raises(InputError, match="damaged"):
        kernel_files.decompress(bytes(packed))


@pytest.mark.parametrize("method", factory.PACKERS)
def test_payload_that_ends_early_is_said_so(method):
    packed = kernel_files.payload(factory.bzimage(factory.vmlinux(), method))
    with pytest.raises(InputError, match="damaged"):
        kernel_files.decompress(packed[: len(packed) // 2])


def test_cut_file_is_said_so():
    packed = factory.bzimage(factory.vmlinux())
    with pytest.raises(InputError, match="cut off"):
        kernel_files.payload(packed[:-100])


def test_unknown_compression_is_said_so():
    with pytest.raises(InputError, match="unknown way"):
        kernel_files.decompress(b"BZh91AY")


def test_release_from_header_and_from_banner():
    assert kernel_files.release_of(factory.bzimage(factory.vmlinux())) == factory.RELEASE
    assert kernel_files.release_of(factory.vmlinux()) == factory.RELEASE
    assert kernel_files.release_of(b"nothing") is None


def test_pvh_note():
    assert kernel_files.has_pvh_entry(factory.vmlinux())
    assert not kernel_files.has_pvh_entry(factory.vmlinux(pvh=False))
    assert not kernel_files.has_pvh_entry(b"\x7fELF and no more")
