"""Studies that are right, from which wrong ones are made."""

from __future__ import annotations

import re
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

from tests.protocol import test_protocol

ROOT = Path(__file__).parents[2]


@cache
def right_studies() -> dict[str, str]:
    """Every built-in study, every example of the documentation, and those of other tests that hold
    everything a plan can hold."""
    found = {path.stem: path.read_text() for path in sorted((ROOT / "studies").glob("*.toml"))}
    page = (ROOT / "docs" / "study-files.md").read_text()
    first, *parts = re.findall(r"```toml\n(.*?)```", page, re.DOTALL)
    found["documented"] = first
    for number, part in enumerate(parts):
        # Some are whole, others are parts of one.
        whole = part.startswith("name = ")
        found[f"documented-{number}"] = part if whole else f"{first}\n{part}"
    for name in ("XEN", "ROUTERS", "MERGED", "OSPF", "WIDE"):
        found[name.lower()] = getattr(test_protocol, name)
    return found


@cache
def right_trees() -> list[dict[str, Any]]:
    return [tomllib.loads(text) for text in right_studies().values()]
