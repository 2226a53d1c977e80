"""Help is quick: it loads nothing that only the work of a verb needs."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = {"altair", "numpy", "polars", "rich", "scipy", "sqlite3", "vl_convert"}
ASK = """
import sys
from hypertare import cli
try:
    cli.main()
finally:
    print("loaded:", *sorted(name for name in sys.modules if "." not in name))
"""


@pytest.mark.parametrize(
    "words", [(), ("weigh",), ("run",), ("report",), ("compare",), ("doctor",), ("studies",)]
)
def test_help_loads_nothing_heavy(words: tuple[str, ...]) -> None:
    output = _ask(*words, "--help")
    assert "Usage: " in output
    loaded = output.rpartition("loaded:")[2].split()
    assert "hypertare" in loaded
    # Typer itself takes pydantic for the options of a verb.
    assert not (HEAVY if words else HEAVY | {"pydantic"}).intersection(loaded)


def test_the_heavy_ones_would_be_seen() -> None:
    loaded = _ask("studies").rpartition("loaded:")[2].split()
    assert {"pydantic", "rich"} <= set(loaded)


def _ask(*words: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", ASK, *words], capture_output=True, text=True, check=True, timeout=60
    )
    return done.stdout
