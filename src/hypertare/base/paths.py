"""Where things lie: the cache, the runs, what is built."""

from __future__ import annotations

import os
from pathlib import Path

import platformdirs

from hypertare.base.arch import ARCH
from hypertare.base.errors import MachineError

AGENT = "hypertare-agent"
WALK_PLUGIN = "libhypertare_walk.so"
PACKAGE = Path(__file__).resolve().parents[1]
CHECKOUT = PACKAGE.parents[1]
"""The source directory, where this is one and not installed."""


def cache_dir() -> Path:
    """`HYPERTARE_CACHE`, else `hypertare` in the XDG cache directory. It need not exist yet."""
    chosen = os.environ.get("HYPERTARE_CACHE")
    return Path(chosen).absolute() if chosen else platformdirs.user_cache_path("hypertare")


def runs_dir() -> Path:
    """Where runs are kept unless the user says otherwise."""
    return Path("hypertare-runs")


def kept_runs_dir() -> Path:
    """Where runs go that the user did not ask to have a directory for: the XDG state directory."""
    return platformdirs.user_state_path("hypertare") / "runs"


def agent_binary() -> Path:
    """The agent: `HYPERTARE_AGENT`, else the one built in this checkout, else the packaged one.

    Raises:
        MachineError: there is none.
    """
    found = _built(AGENT, "The agent", "HYPERTARE_AGENT")
    if not os.access(found, os.X_OK):
        raise MachineError(f"The agent {found} may not be executed.", f"Run `chmod +x {found}`.")
    return found


def walk_plugin() -> Path:
    """QEMU's plugin of `hypertare walk`: `HYPERTARE_WALK_PLUGIN`, else as the agent is found.

    Raises:
        MachineError: there is none.
    """
    return _built(WALK_PLUGIN, "The walk plugin", "HYPERTARE_WALK_PLUGIN")


def _built(name: str, what: str, variable: str) -> Path:
    """Something that `cargo build --release` makes."""
    if chosen := os.environ.get(variable):
        path = Path(chosen).absolute()
        if path.is_file():
            return path
        raise MachineError(
            f"{variable} names {path}, which is not there.",
            "Correct it, or unset it and run `cargo build --release`.",
        )
    places = (CHECKOUT / "target" / ARCH.target / "release" / name, PACKAGE / "bin" / name)
    for place in places:
        if place.is_file():
            return place
    raise MachineError(
        f"{what} is not built: no {name} in {' or '.join(str(place.parent) for place in places)}.",
        f"Build it with `cargo build --release` in the source directory, or name it with {variable}.",
    )
