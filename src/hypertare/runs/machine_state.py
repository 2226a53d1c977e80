"""The machine that a run was made on. Apart from the summary: a run needs this much to begin."""

from __future__ import annotations

from typing import Literal

from hypertare.runs.part import Part


class MachineState(Part):
    """The machine a run was made on."""

    kind: Literal["local", "emulated", "remote"]
    hostname: str
    cpu: str
    cpus: int
    memory: int
    kernel: str
    architecture: str
    distribution: str
