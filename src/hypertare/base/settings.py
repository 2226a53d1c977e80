"""What all tables of a study have in common."""

from __future__ import annotations

from hypertare.base.closed import Closed


class Settings(Closed):
    """A table, or what stands in one."""
