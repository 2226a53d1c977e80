"""What a wheel holds beside the Python files, at the places where the installed package looks."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

RELEASE = Path("target/x86_64-unknown-linux-gnu/release")
BESIDE = {
    "studies": "hypertare/studies",
    "kernel": "hypertare/kernel",
    str(RELEASE / "hypertare-agent"): "hypertare/bin/hypertare-agent",
    str(RELEASE / "libhypertare_walk.so"): "hypertare/bin/libhypertare_walk.so",
}


class Beside(BuildHookInterface):
    """Brings studies, the kernel module's source, and the agent and the walk plugin, built anew."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "editable":
            # A checkout has all of it where it was made.
            return
        root = Path(self.root)
        subprocess.run(["cargo", "build", "-q", "--release", "--locked"], cwd=root, check=True)
        build_data["force_include"] |= {str(root / path): place for path, place in BESIDE.items()}
        build_data |= {"pure_python": False, "tag": "py3-none-linux_x86_64"}
