"""`power-cut`: one like the system under test writes to a disk of its own, its power is cut in mid write,
and one that is made anew looks for what fdatasync had returned for.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from hypertare.base.quantities import Size, Working
from hypertare.base.units import human_size
from hypertare.base.variables import Found, Response
from hypertare.protocol import plan
from hypertare.protocol.phase import Phase
from hypertare.workloads.io import SECTOR
from hypertare.workloads.pair import Pair
from hypertare.workloads.workload import (
    LimitedSettings,
    NodeFacts,
    Workload,
    disk_misfit,
)

_ROLE = "cut"
_VALUES = {
    "lost_blocks": "lost_blocks",
    "durable_writes": "durable_writes",
    "newer_blocks": "newer_blocks",
    "torn_blocks": "torn_blocks",
    "restart": "restart_s",
}
"""Responses by the value that a life reports."""
_EARLIEST = 0.1
"""Share of the time `within` before which no cut comes."""


class PowerCutSettings(LimitedSettings):
    type: Literal["power-cut"]
    block: Annotated[Size, Field(ge=SECTOR, le=64 << 20)] = 4096
    """Bytes of a write."""
    span: Annotated[Size, Field(ge=SECTOR, le=1 << 30)] = 4 << 20
    """Bytes of the disk."""
    jobs: Annotated[int, Field(ge=1, le=256)] = 2
    """Threads, each with a part of the span."""
    sync_every: Annotated[int, Field(ge=1, lt=1 << 16)] = 8
    """Writes of a job after which they are made durable (fdatasync)."""
    direct: bool = True
    """Writes pass by the page cache of the node's kernel (O_DIRECT)."""
    within: Working = 0.5
    """The cut comes at an instant between a tenth of this time and all of it, which the seed chooses.
    """

    @model_validator(mode="after")
    def _fits(self) -> PowerCutSettings:
        if self.block % SECTOR:
            raise ValueError(
                f"'block' is {self.block} bytes: it must be a multiple of {SECTOR}, a disk's sector"
            )
        if self.span % self.block or self.span // self.block < 2 * self.jobs:
            raise ValueError(
                f"'span' is {human_size(self.span)}: it must be a multiple of 'block', "
                f"{human_size(self.block)}, with two blocks or more for each of the {self.jobs} 'jobs'"
            )
        return self

    @property
    def nodes_beside(self) -> int:
        return 1

    @property
    def disk_bytes(self) -> int:
        # Of the one that is made: its disk's blocks may be in the disk's cache and on it.
        return 2 * self.span

    def misfit(self, node: NodeFacts) -> str | None:
        if not node.cuts_power:
            return (
                "it cuts the power of a disk, which this host's disks are not to suffer: take "
                "machine = 'emulated'"
            )
        if not node.all_made:
            return (
                "it makes a system under test anew in each trial, and a container of an engine's image is "
                "not made here: leave sut.image out"
            )
        return disk_misfit(node)

    def lives(self, pair: Pair, like: plan.Node, instant: float) -> list[plan.Life]:
        mark = "" if pair.number is None else f".{pair.number}"
        name = f"{pair.node}-cut{pair.place + 1}"
        disk = plan.Disk(bytes=self.span, write_cache=True)
        writes = plan.DurableWrites(
            block=self.block,
            span=self.span,
            jobs=self.jobs,
            sync_every=self.sync_every,
            direct=self.direct,
            seed=1,
        )
        after_s = self.within * (_EARLIEST + (1 - _EARLIEST) * instant)
        return [
            plan.Life(
                id=f"{_ROLE}{mark}",
                of=pair.node,
                node=like.model_copy(update={"name": name, "disk": disk}),
                power_cut=plan.PowerCut(writes=writes, after_s=after_s),
                purpose=plan.Purpose(role=_ROLE, pair=pair.number),
            )
        ]


class PowerCut(Workload):
    name = "power-cut"
    settings = PowerCutSettings
    own_responses = (
        Response(
            "lost_blocks",
            "blocks",
            "lower",
            "blocks without the last writing that fdatasync had returned for",
        ),
        Response(
            "durable_writes",
            "writes",
            "higher",
            "writes that fdatasync had returned for when the power was cut",
        ),
        Response(
            "newer_blocks",
            "blocks",
            "higher",
            "blocks with a writing that fdatasync had not returned for",
        ),
        Response("torn_blocks", "blocks", "lower", "of these, sectors of several writings"),
        Response("restart", "s", "lower", "from a new start to an answer after the cut", "mean"),
    )
    headline = "lost_blocks"
    works_on_node = False

    def measure(self, phase: Phase) -> Found:
        return {name: phase.total(_ROLE, value) for name, value in _VALUES.items()}


POWER_CUT = PowerCut()
