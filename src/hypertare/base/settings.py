"""The base class of all tables of a study."""

from __future__ import annotations

from hypertare.base.closed import Closed


class Settings(Closed):
    """A table of a study file, or a table within one."""
