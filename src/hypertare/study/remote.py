"""`[remote]`: the host that `machine = "remote"` is, and how it is reached."""

from __future__ import annotations

from hypertare.base.settings import Settings
from hypertare.study.given import Reach, reach_words


class Remote(Settings):
    reach: Reach
    """The command that reaches the host of [`machine = "remote"`](remote.md): `"ssh lab2"`."""

    @property
    def words(self) -> tuple[str, ...]:
        return reach_words(self.reach)
