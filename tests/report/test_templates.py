from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ASK = "import hypertare.report.page"


def load(cache: Path) -> dict[str, tuple[int, bytes]]:
    """The files that stand in the cache once the templates were loaded."""
    environment = {"HYPERTARE_CACHE": str(cache), "PATH": ""}
    subprocess.run([sys.executable, "-c", ASK], env=environment, check=True, capture_output=True)
    files = cache.rglob("page-*")
    return {file.name: (file.stat().st_ino, file.read_bytes()) for file in files}


def test_templates_are_compiled_once(tmp_path: Path) -> None:
    first = load(tmp_path)
    assert len(first) == 3
    assert load(tmp_path) == first


@pytest.mark.parametrize("damage", [b"", b"nonsense", "half"])
def test_a_damaged_one_is_compiled_anew(tmp_path: Path, damage: bytes | str) -> None:
    whole = load(tmp_path)
    for name, (_, text) in whole.items():
        left = text[: len(text) // 2] if isinstance(damage, str) else damage
        (tmp_path / "scripts" / name).write_bytes(left)
    assert {name: text for name, (_, text) in load(tmp_path).items()} == {
        name: text for name, (_, text) in whole.items()
    }


def test_a_cache_that_cannot_be_written_is_done_without(tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("no directory")
    assert load(tmp_path / "cache") == {}
