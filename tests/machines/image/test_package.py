"""With a made-up archive: real dpkg-deb, and stand-ins for apt that answer as apt does."""

import hashlib
import shutil
import subprocess

import pytest

from hypertare.base.errors import InputError, MachineError
from hypertare.machines.image import package
from hypertare.machines.image.build import build
from tests.machines.image import factory

pytestmark = pytest.mark.skipif(not shutil.which("dpkg-deb"), reason="needs dpkg-deb")

REAL = f"linux-image-{factory.RELEASE}"
APT_CACHE = """#!/bin/sh
for name; do :; done
cat "{place}/$name.stanza" 2>/dev/null && exit 0
echo "N: Unable to locate package $name" >&2
echo "E: No packages found" >&2
exit 100
"""
APT_GET = """#!/bin/sh
for wanted; do :; done
cp "{place}/${{wanted%%=*}}.deb" . || {{ echo "E: Failed to fetch" >&2; exit 100; }}
"""


@pytest.fixture
def archive(tmp_path, bench, monkeypatch):
    """A distribution with a metapackage and a kernel."""
    place = tmp_path / "archive"
    bin_dir = place / "bin"
    bin_dir.mkdir(parents=True)
    for name, text in (("apt-cache", APT_CACHE), ("apt-get", APT_GET)):
        (bin_dir / name).write_text(text.format(place=place))
        (bin_dir / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{bin_dir}:/usr/bin:/bin")
    control = (
        f"Package: {REAL}\nVersion: 1.0-1\nArchitecture: amd64\nMaintainer: x\nDescription: x\n"
    )
    tree = bench.kernel.parents[1]
    (tree / "DEBIAN").mkdir()
    (tree / "DEBIAN/control").write_text(control)
    deb = place / f"{REAL}.deb"
    subprocess.run(["dpkg-deb", "-b", tree, deb], check=True, capture_output=True)
    digest = hashlib.sha256(deb.read_bytes()).hexdigest()
    stanza = f"{control}Size: {deb.stat().st_size}\nSHA256: {digest}\n"
    (place / f"{REAL}.stanza").write_text(stanza)
    (place / "linux-image-amd64.stanza").write_text(
        "Package: linux-image-amd64\nVersion: 1.0-1\nArchitecture: amd64\n"
        f"Depends: {REAL} (= 1.0-1)\nSize: 9\nSHA256: {'0' * 64}\n"
    )
    return place


def get(bench, kernel="debian", **options):
    return build(kernel, agent=bench.agent, cache=bench.cache, **options)


def test_metapackage_is_followed(bench, archive):
    image = get(bench)
    assert image.kernel_name == f"{factory.RELEASE} ({REAL} 1.0-1)"
    assert "virtio_net" in image.modules


def test_once_fetched_it_needs_no_apt(bench, archive, monkeypatch):
    image = get(bench)
    monkeypatch.setenv("PATH", "/nonexistent")
    assert get(bench) == image
    bench.agent.write_bytes(factory.agent("2"))
    assert get(bench).kernel == image.kernel


def test_refresh_looks_for_a_newer_one(bench, archive):
    image = get(bench)
    said = []
    assert get(bench, refresh=True, progress=said.append) == image
    assert not any("downloading" in line for line in said)
    stanza = (archive / f"{REAL}.stanza").read_text()
    (archive / f"{REAL}.stanza").write_text(stanza.replace("1.0-1", "1.0-2"))
    assert get(bench) == image
    assert get(bench, refresh=True).kernel_name.endswith("1.0-2)")
    assert get(bench).kernel_name.endswith("1.0-2)")


def test_refresh_of_a_path_is_the_path(bench):
    assert bench.build(refresh=True) == bench.build()


def test_two_names_share_one_package(bench, archive, monkeypatch):
    image = get(bench)
    assert get(bench, f"debian:{REAL}") == image
    monkeypatch.setenv("PATH", "/nonexistent")
    assert get(bench, f"debian:{REAL}") == image
    assert len(bench.packages()) == 1


def test_damaged_module_in_the_cache_is_fetched_again(bench, archive):
    image = get(bench)
    path = next(bench.packages()[0].path.rglob("virtio_ring.ko"))
    path.write_bytes(b"damaged")
    bench.agent.write_bytes(factory.agent("2"))
    assert get(bench).modules == image.modules


def test_damaged_download_is_refused(bench, archive):
    deb = archive / f"{REAL}.deb"
    deb.write_bytes(deb.read_bytes() + b"x")
    with pytest.raises(MachineError, match="is damaged: SHA-256"):
        get(bench)
    assert bench.cache.listing() == []


def test_unknown_package_says_apt_get_update(bench, archive):
    with pytest.raises(MachineError, match="apt-get update"):
        get(bench, "debian:linux-image-absent")


@pytest.mark.parametrize(("failures", "works"), [(2, True), (99, False)])
def test_lists_that_are_just_rewritten_are_read_again(bench, archive, monkeypatch, failures, works):
    monkeypatch.setattr(package, "_RETRY_S", 0.0)
    script = archive / "bin/apt-cache"
    count = (
        f'echo x >> "{archive}/count"\n[ $(wc -l < "{archive}/count") -gt {failures} ] || '
        "{ echo 'E: The package lists could not be parsed or opened.' >&2; exit 100; }"
    )
    script.write_text(script.read_text().replace("#!/bin/sh", f"#!/bin/sh\n{count}"))
    if works:
        assert get(bench).kernel_release == factory.RELEASE
    else:
        with pytest.raises(MachineError, match="could not be parsed"):
            get(bench)


def test_failed_download_names_the_command(bench, archive):
    (archive / f"{REAL}.deb").unlink()
    with pytest.raises(MachineError, match=r"apt-get .*download.* failed: E: Failed to fetch"):
        get(bench)


def test_package_without_a_kernel_is_refused(bench, archive):
    tree = bench.kernel.parents[1]
    bench.kernel.unlink()
    deb = archive / f"{REAL}.deb"
    subprocess.run(["dpkg-deb", "-b", tree, deb], check=True, capture_output=True)
    stanza = (archive / f"{REAL}.stanza").read_text().rpartition("SHA256: ")[0]
    digest = hashlib.sha256(deb.read_bytes()).hexdigest()
    (archive / f"{REAL}.stanza").write_text(f"{stanza}SHA256: {digest}\n")
    with pytest.raises(InputError, match="holds no kernel"):
        get(bench)


def test_other_distribution_is_said(bench, monkeypatch):
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(MachineError, match="no apt-cache") as raised:
        get(bench)
    assert "--kernel host" in str(raised.value)
