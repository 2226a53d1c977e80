"""The project's own kernel module: an image is made without it, holds the reason, and tries again."""

import pytest

from hypertare.design.profiles import PROFILES
from hypertare.machines.image.kernel import compiler_of
from hypertare.machines.image.package import Package
from tests.machines.image import factory, newc

NAME = "hypertare_napi"


def reason(image):
    found = newc.read(image.initramfs.read_bytes())
    assert f"modules/{NAME}.ko" not in found
    assert NAME not in found["modules/index"].data.decode()
    return found[f"modules/{NAME}.missing"].data.decode()


def give_headers(bench):
    headers = bench.kernel.parents[1] / "lib/modules" / factory.RELEASE / "build"
    headers.mkdir()
    (headers / "Makefile").write_text("modules:\n\t@echo 'error: no such kernel' >&2; false\n")


def test_every_machine_and_every_guest_of_one_has_it():
    for profile in PROFILES.values():
        assert NAME in profile.own, profile.name
        assert profile.guests is None or NAME in profile.guests.own, profile.name
        assert profile.all_own == (NAME,)


def test_a_kernel_without_headers_makes_an_image_with_the_reason(bench):
    assert "has no headers beside it" in reason(bench.build())


def test_without_a_compiler_the_reason_says_what_to_install(bench, monkeypatch, tmp_path):
    give_headers(bench)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "no make. Install gcc-12 and make" in reason(bench.build())


def test_what_does_not_compile_is_reported_once_and_tried_again_when_asked(bench):
    give_headers(bench)
    image = bench.build()
    assert "error: no such kernel" in reason(image)
    said = []
    assert bench.build(progress=said.append) == image
    assert said == []
    again = bench.build(progress=said.append, refresh=True)
    assert again.digest == image.digest
    assert any(NAME in line for line in said)


@pytest.mark.parametrize(
    ("depends", "version"),
    [
        ("linux-headers-6.1.0-51-common (= 6.1), linux-compiler-gcc-12-x86", "12"),
        ("gcc-14-for-host, linux-base, linux-kbuild-7.2.11+deb13", "14"),
        ("linux-kbuild-5.0, gcc", None),
    ],
)
def test_headers_name_the_compiler_of_their_kernel(depends, version):
    headers = Package("linux-headers-7-amd64", "7", "amd64", "0" * 64, 1, depends)
    assert compiler_of(headers) == version
