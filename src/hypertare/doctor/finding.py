"""What a check says."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

Status = Literal["ok", "info", "warn", "bad"]


class Said(NamedTuple):
    """`bad`: an essential part is missing. `warn`: weighed worse, slower or with more noise.
    `info`: worth knowing. `do` is what to do about it, with the exact command."""

    status: Status
    what: str
    do: str | None = None


@dataclass(frozen=True)
class Finding:
    """What the check `name` says."""

    name: str
    status: Status
    what: str
    do: str | None = None
