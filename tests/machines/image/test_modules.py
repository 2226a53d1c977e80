import pytest

from hypertare.base.errors import MachineError
from hypertare.machines.image.kernel_files import ModuleTree, unsigned
from tests.machines.image import factory


@pytest.fixture
def tree(tmp_path):
    factory.host(tmp_path)
    root = tmp_path / "lib/modules" / factory.RELEASE
    return ModuleTree(root, lambda name: (root / name).read_bytes())


def test_dependencies_come_first_and_once(tree):
    assert tree.load_order("virtio_pci") == ["virtio_ring", "virtio", "virtio_pci"]


def test_soft_dependencies_that_exist_come_first(tree):
    assert tree.load_order("virtio-net") == ["net_helper", "virtio_ring", "virtio", "virtio_net"]


def test_built_in_needs_no_file(tree):
    assert tree.has("af-packet")
    assert tree.has("af_packet") and tree.load_order("af_packet") == []
    assert tree.load_order("af_packet") == []


@pytest.mark.parametrize("name", ["virtio_pci", "virtio_console", "virtio_net", "virtio"])
def test_content_is_uncompressed(tree, name):
    assert tree.content(name).startswith(b"\x7fELF")


def test_missing_module_is_said_so(tree):
    with pytest.raises(MachineError, match="no module vmxnet3"):
        tree.load_order("vmxnet3")


def test_missing_dependency_names_who_needs_it(tree):
    with pytest.raises(MachineError, match="no module absent, which broken_need needs"):
        tree.load_order("broken_need")


def test_a_circle_ends(tree):
    assert tree.load_order("loop_a") == ["loop_b", "loop_a"]


@pytest.mark.parametrize("name", ["drivers/virtio/virtio_pci.ko.xz", "drivers/virtio/virtio.ko"])
def test_damaged_module_is_said_so(tmp_path, name):
    factory.host(tmp_path)
    root = tmp_path / "lib/modules" / factory.RELEASE
    (root / "kernel" / name).write_bytes(b"rubbish")
    tree = ModuleTree(root, lambda name: (root / name).read_bytes())
    with pytest.raises(MachineError, match="damaged"):
        tree.load_order("virtio_pci")


def test_a_signature_is_left_out_and_nothing_else() -> None:
    info = bytes([0, 0, 2, 0, 0, 0, 0, 0]) + (5).to_bytes(4, "big")
    mark = b"~Module signature appended~\n"
    assert unsigned(b"module" + b"PKCS7" + info + mark) == b"module"
    for module in (b"module", mark, info + mark, b"module" + info[:4] + mark):
        assert unsigned(module) == module
