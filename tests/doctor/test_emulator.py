"""Whether the emulator of virtual time is there, can be built, or could not."""

from __future__ import annotations

from pathlib import Path

import pytest

from hypertare.doctor import own
from hypertare.machines.image import emulator
from hypertare.machines.image.cache import Cache
from tests.doctor.factory import make_host


def keep(cache: Cache, facts: dict[str, str]) -> None:
    def fill(place: Path) -> dict[str, str]:
        (place / "qemu-system-x86_64").touch()
        return facts

    key = emulator.recipe().key
    before = cache.find("emulators", key)
    if before:
        cache.drop(before)
    cache.make("emulators", key, "emulator", fill)


def test_it_is_built_or_not_yet_or_could_not_be(tmp_path: Path) -> None:
    host = make_host(tmp_path / "host")
    found = own.emulator(host)
    assert found.status == "info" and "not built yet" in found.what
    keep(Cache(host.cache), {})
    assert own.emulator(host).status == "ok"
    keep(Cache(host.cache), {"reason": "cpu.c:7: error"})
    found = own.emulator(host)
    assert found.status == "warn" and "does not build" in found.what
    assert "one CPU" in found.what and emulator.AGAIN in str(found.do)


def test_what_is_missing_to_build_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(emulator, "_PATH", str(tmp_path))
    found = own.emulator(make_host(tmp_path / "host"))
    assert found.status == "warn" and "no gcc, make" in found.what
    assert "apt-get install" in str(found.do)
