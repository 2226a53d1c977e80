from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from hypertare.machines.image.build import Image, build
from hypertare.machines.image.cache import Cache, Entry
from tests.machines.image import factory


@dataclass
class Bench:
    """A made-up host, an agent and a cache of its own."""

    root: Path
    kernel: Path
    agent: Path
    cache: Cache

    def build(self, **options) -> Image:
        return build(str(self.kernel), agent=self.agent, cache=self.cache, **options)

    def packages(self) -> list[Entry]:
        listed = [listed for listed in self.cache.listing() if listed.kind == "packages"]
        return [self.cache.find("packages", each.key) for each in listed]


@pytest.fixture
def bench(tmp_path) -> Bench:
    kernel = factory.host(tmp_path / "host")
    agent = tmp_path / "agent"
    agent.write_bytes(factory.agent())
    return Bench(tmp_path, kernel, agent, Cache(tmp_path / "cache"))
