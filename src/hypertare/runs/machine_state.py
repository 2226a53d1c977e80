"""The machine that a run was made on. Apart from the summary: a run needs this much to begin."""

from __future__ import annotations

from pydantic import Field

from hypertare.base.closed import Closed
from hypertare.machine_kinds.registry import MachineName


class MachineState(Closed):
    """The machine a run was made on."""

    kind: MachineName = Field(description="what kind of machine")
    hostname: str = Field(description="its name")
    cpu: str = Field(description="its CPU's model")
    cpus: int = Field(description="its CPUs")
    memory: int = Field(description="bytes of its memory")
    kernel: str = Field(description="release of its kernel")
    architecture: str = Field(description="for example `x86_64`")
    distribution: str = Field(description="its distribution")
    walks: tuple[str, ...] = Field(
        default=(),
        description="processors whose page walks take its time, as `emulated.walks`; none: they "
        "take none",
    )
