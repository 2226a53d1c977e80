"""Where things lie: the cache, the runs, the agent."""

from __future__ import annotations

import os
from pathlib import Path

import platformdirs

from hypertare.errors import MachineError

AGENT = "hypertare-agent"
TARGET = "x86_64-unknown-linux-gnu"
_PACKAGE = Path(__file__).resolve().parent


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
    chosen = os.environ.get("HYPERTARE_AGENT")
    if chosen:
        return _executable(Path(chosen).absolute())
    for place in _agent_places():
        if place.is_file():
            return _executable(place)
    raise MachineError(
        f"The agent is not built: no {AGENT} in {' or '.join(map(str, _agent_places()))}.",
        "Build it with `cargo build --release` in the source directory, "
        "or name it with HYPERTARE_AGENT.",
    )


def _agent_places() -> tuple[Path, ...]:
    checkout = _PACKAGE.parents[1]
    return (checkout / "target" / TARGET / "release" / AGENT, _PACKAGE / "bin" / AGENT)


def _executable(path: Path) -> Path:
    if not path.is_file():
        raise MachineError(
            f"HYPERTARE_AGENT names {path}, which is not there.",
            "Correct it, or unset it and run `cargo build --release`.",
        )
    if not os.access(path, os.X_OK):
        raise MachineError(f"The agent {path} may not be executed.", f"Run `chmod +x {path}`.")
    return path
