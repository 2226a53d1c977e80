"""How a study names the programs that an emulated machine is to have."""

from __future__ import annotations

PROGRAM_SETS = ("build", "compress")
"""What comes from the distribution: see `hypertare.machines.image.programs`."""


def is_own_program(name: str) -> bool:
    """Whether a path of this host is meant, and not a set of programs."""
    return "/" in name
