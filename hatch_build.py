"""What a wheel holds beside the Python files, at the places where the installed package looks."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

RELEASE = Path("target/x86_64-unknown-linux-gnu/release")
BESIDE = {
    "studies": "hypertare/studies",
    "kernel": "hypertare/kernel",
    "emulator": "hypertare/emulator",
    str(RELEASE / "hypertare-agent"): "hypertare/bin/hypertare-agent",
    str(RELEASE / "libhypertare_walk.so"): "hypertare/bin/libhypertare_walk.so",
}


class Beside(BuildHookInterface):
    """Brings studies, the kernel module's source, the emulator's patches, and the agent and the walk
    plugin, built anew."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "editable":
            # A checkout has all of it where it was made.
            return
        root = Path(self.root)
        subprocess.run(["cargo", "build", "-q", "--release", "--locked"], cwd=root, check=True)
        build_data["force_include"] |= {str(root / path): place for path, place in BESIDE.items()}
        build_data |= {"pure_python": False, "tag": f"py3-none-{_platform(root)}"}


def _platform(root: Path) -> str:
    """The oldest Linux that it runs on, as PEP 600 names it. The agent is static and needs no libc; the
    walk plugin is loaded by QEMU and needs the one that it was linked with.
    """
    plugin = (root / RELEASE / "libhypertare_walk.so").read_bytes()
    needed = max(int(minor) for minor in re.findall(rb"GLIBC_2\.(\d+)", plugin))
    return f"manylinux_2_{needed}_x86_64"
