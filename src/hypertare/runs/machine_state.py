"""The machine that a run was made on. Apart from the summary: a run needs this much to begin."""

from __future__ import annotations

from typing import Annotated

from hypertare.machine_kinds.registry import MachineName
from hypertare.runs.part import Part, means


class MachineState(Part):
    """The machine a run was made on."""

    kind: Annotated[MachineName, means("what kind of machine")]
    hostname: Annotated[str, means("its name")]
    cpu: Annotated[str, means("its CPU's model")]
    cpus: Annotated[int, means("its CPUs")]
    memory: Annotated[int, means("bytes of its memory")]
    kernel: Annotated[str, means("release of its kernel")]
    architecture: Annotated[str, means("for example `x86_64`")]
    distribution: Annotated[str, means("its distribution")]
    walks: Annotated[
        tuple[str, ...],
        means(
            "processors whose page walks take its time, as `emulated.walks`; none: they take none"
        ),
    ] = ()
