"""`[remote]`: the host that `machine = "remote"` is, or several, and how each is reached."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field

from hypertare.base.settings import Settings
from hypertare.study.given import Reach, reach_words


def _several(given: object) -> object:
    return (given,) if isinstance(given, str) else given


def _differ(reaches: tuple[str, ...]) -> tuple[str, ...]:
    words = [reach_words(one) for one in reaches]
    twice = next((one for one in reaches if words.count(reach_words(one)) > 1), None)
    if twice is not None:
        raise ValueError(f"{twice!r} is there twice: name each host once")
    return reaches


class Remote(Settings):
    reach: Annotated[
        tuple[Reach, ...], BeforeValidator(_several), Field(min_length=1), AfterValidator(_differ)
    ]
    """The command that reaches the host of [`machine = "remote"`](remote.md): `"ssh lab2"`. Or of [several
    hosts](remote.md#several-hosts), which have boots by turns: `["ssh lab1", "ssh lab2"]`.
    """

    @property
    def hosts(self) -> tuple[tuple[str, ...], ...]:
        """The words that reach each."""
        return tuple(map(reach_words, self.reach))
