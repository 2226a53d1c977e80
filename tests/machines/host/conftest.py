from __future__ import annotations

from pathlib import Path

import pytest

from tests.machines.host.made_up import MadeUp


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> MadeUp:
    made = MadeUp(tmp_path / "host")
    monkeypatch.setenv("PATH", made.search_path())
    monkeypatch.setattr("os.geteuid", lambda: 0)
    return made
