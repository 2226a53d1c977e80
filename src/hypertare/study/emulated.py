"""`[emulated]`: the PC in virtual time."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from hypertare.base.quantities import Duration
from hypertare.base.settings import Settings


class Emulated(Settings):
    """The PC that `machine = "emulated"` is; what is under test on it stands in `sut`.

    An instruction takes 2^`shift` ns of virtual time. `limit` is in the machine's own time, for one
    boot with all its trials; `host_limit` in the host's.
    """

    shift: Annotated[int, Field(ge=0, le=10)] = 3
    limit: Annotated[Duration, Field(ge=1)] = 3600.0
    host_limit: Annotated[Duration, Field(gt=0)] = 900.0
