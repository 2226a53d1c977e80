import os
import subprocess
import sys

import pytest

from hypertare.base.errors import InputError, MachineError
from hypertare.machines.image.build import build
from hypertare.machines.image.cache import Cache
from tests.machines.image import factory, newc

CHILD = """
import sys
from pathlib import Path
from hypertare.base.errors import HypertareError
from hypertare.machines.image.build import build
from hypertare.machines.image.cache import Cache
kernel, agent, cache, limit, user = sys.argv[1:]
if int(limit):
    import resource
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(limit), int(limit)))
if int(user):
    import os
    os.setgroups([])
    os.setresuid(int(user), int(user), int(user))
try:
    image = build(kernel, agent=Path(agent), cache=Cache(Path(cache)))
except HypertareError as error:
    sys.exit(str(error))
print(image.kernel, image.initramfs, image.digest)
"""


def child(bench, *, limit=0, user=0):
    argv = [bench.kernel, bench.agent, bench.cache.root, limit, user]
    return subprocess.Popen(
        [sys.executable, "-c", CHILD, *map(str, argv)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def end(process):
    out, err = process.communicate(timeout=60)
    return process.returncode, out, err


def test_image_holds_agent_modules_and_index(bench):
    image = bench.build()
    assert image.kernel.name == "vmlinux"
    assert image.kernel.read_bytes() == factory.vmlinux()
    assert image.kernel_release == factory.RELEASE
    assert {"virtio_pci", "virtio_net", "af_packet"} <= image.modules
    found = newc.read(image.initramfs.read_bytes())
    assert found["init"].data == factory.agent()
    assert {"dev/console", "proc", "sys", "run", "tmp", "host"} <= set(found)
    index = found["modules/index"].data.decode().splitlines()
    assert "virtio_pci virtio_ring.ko virtio.ko virtio_pci.ko" in index
    assert "af_packet" in index
    assert found["modules/virtio_pci.ko"].data == factory.module("virtio,virtio_ring")
    assert "modules/broken_need.ko" not in found


def test_second_time_comes_from_the_cache(bench):
    first = bench.build()
    said = []
    assert bench.build(progress=said.append) == first
    assert said == []


def test_each_input_changes_the_image(bench):
    digests = [bench.build().digest]
    bench.agent.write_bytes(factory.agent("2"))
    digests.append(bench.build().digest)
    bench.kernel.write_bytes(factory.bzimage(factory.vmlinux(size=400_000)))
    digests.append(bench.build().digest)
    tree = bench.kernel.parents[1] / "lib/modules" / factory.RELEASE / "kernel"
    (tree / "drivers/net/e1000.ko").write_bytes(factory.module())
    digests.append(bench.build().digest)
    assert len(set(digests)) == 4


@pytest.mark.parametrize("which", ["kernel", "initramfs"])
@pytest.mark.parametrize("how", ["flipped", "cut", "removed"])
def test_damage_is_noticed_and_mended(bench, which, how):
    image = bench.build()
    path = getattr(image, which)
    sound = path.read_bytes()
    if how == "removed":
        path.unlink()
    else:
        changed = bytes([sound[100] ^ 1]) if how == "flipped" else b""
        path.write_bytes(sound[:100] + changed + (sound[101:] if changed else b""))
    assert getattr(bench.build(), which).read_bytes() == sound


def test_kernel_without_pvh_boots_as_it_is(bench):
    packed = factory.bzimage(factory.vmlinux(pvh=False), "zstd")
    bench.kernel.write_bytes(packed)
    image = bench.build()
    assert image.kernel.name == "bzImage"
    assert image.kernel.read_bytes() == packed


def test_uncompressed_kernel_is_taken(bench):
    bench.kernel.write_bytes(factory.vmlinux())
    assert bench.build().kernel_release == factory.RELEASE


def test_kernel_without_modules_is_taken_as_all_built_in(bench):
    alone = bench.root / "elsewhere" / "deep" / "vmlinux"
    alone.parent.mkdir(parents=True)
    alone.write_bytes(factory.vmlinux())
    image = build(str(alone), agent=bench.agent, cache=bench.cache)
    index = newc.read(image.initramfs.read_bytes())["modules/index"].data.decode()
    assert "virtio_pci\n" in index


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"no kernel at all" * 100, "neither a bzImage nor an ELF"),
        (factory.vmlinux(pvh=False), "without a PVH entry"),
        (factory.bzimage(factory.vmlinux())[:-100], "cannot be unpacked"),
    ],
)
def test_what_is_no_kernel_is_refused(bench, data, message):
    bench.kernel.write_bytes(data)
    with pytest.raises(InputError, match=message):
        bench.build()
    assert bench.cache.listing() == []


def test_missing_required_module_is_refused(bench):
    tree = bench.kernel.parents[1] / "lib/modules" / factory.RELEASE / "kernel"
    (tree / "drivers/char/virtio_console.ko.zst").unlink()
    with pytest.raises(MachineError, match="no module virtio_console"):
        bench.build()


def test_dynamic_agent_is_refused(bench):
    bench.agent.write_bytes(factory.elf(interpreter=True))
    with pytest.raises(InputError, match="linked dynamically"):
        bench.build()


def test_unknown_profile_and_kernel_are_refused(bench):
    with pytest.raises(InputError, match="no image profile 'gest'"):
        bench.build(profile="gest")
    with pytest.raises(InputError, match="There is no kernel"):
        build(str(bench.root / "absent"), agent=bench.agent, cache=bench.cache)


def test_missing_agent_says_how_to_build_it(bench):
    with pytest.raises(MachineError, match="cargo build --release"):
        build(str(bench.kernel), agent=bench.root / "absent", cache=bench.cache)


def test_builds_at_once_do_not_disturb_each_other(bench):
    ends = [end(process) for process in [child(bench) for _ in range(4)]]
    assert [status for status, _, _ in ends] == [0] * 4, ends
    assert len({out for _, out, _ in ends}) == 1
    assert len(bench.cache.listing()) == 3


def test_full_disk_is_said_and_leaves_nothing(bench):
    status, _, said = end(child(bench, limit=100_000))
    assert status == 1
    assert "No room in the cache directory" in said
    assert "HYPERTARE_CACHE" in said
    assert bench.cache.listing() == []
    assert list((bench.cache.root / "work").iterdir()) == []
    assert bench.build().kernel.exists()


def let_all_in(path):
    """pytest's directories are private; another user must reach the cache."""
    for above in path.parents:
        if above.stat().st_uid == os.getuid() and above.parts[1:2] == ("tmp",):
            above.chmod(0o755)


@pytest.mark.skipif(os.getuid() != 0, reason="needs to become another user")
def test_read_only_cache_is_used_and_a_missing_image_is_said(bench):
    image = bench.build()
    let_all_in(bench.agent)
    status, out, said = end(child(bench, user=65534))
    assert (status, out.split()[2]) == (0, image.digest), said
    bench.agent.write_bytes(factory.agent("2"))
    status, _, said = end(child(bench, user=65534))
    assert status == 1
    assert "cannot be written" in said
    assert "HYPERTARE_CACHE" in said


def test_cache_below_a_file_is_said(bench):
    with pytest.raises(MachineError, match="cannot be written"):
        build(str(bench.kernel), agent=bench.agent, cache=Cache(bench.agent / "cache"))


@pytest.mark.guest
@pytest.mark.release
def test_real_kernel_package(tmp_path, bench):
    """From the distribution's archive, once; then from the cache; a damaged package is fetched."""
    image = build(agent=bench.agent, cache=bench.cache)
    assert image.kernel.name == "vmlinux"
    assert {"virtio_net", "e1000", "e1000e", "vmxnet3", "8139cp", "9p", "overlay"} <= image.modules
    names = newc.read(image.initramfs.read_bytes())
    assert "modules/virtio_ring.ko" in names
    assert image.initramfs.stat().st_size < 12 << 20
    found = [
        (package, name)
        for package in bench.packages()
        for name in package.digests
        if name.endswith("/virtio_net.ko")
    ]
    ((package, net),) = found
    (package.path / net).write_bytes(b"damaged")
    image.initramfs.unlink()
    said = []
    again = build(agent=bench.agent, cache=bench.cache, progress=said.append)
    assert again.digest == image.digest
    assert any("downloading" in line for line in said)
    assert newc.read(again.initramfs.read_bytes()) == names
