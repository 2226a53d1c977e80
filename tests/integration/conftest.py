"""A user of one's own for each test, or for each file of tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.lab import Lab


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    return Lab(tmp_path)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Lab:
    return Lab(tmp_path_factory.mktemp("lab"))
