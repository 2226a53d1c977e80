"""`burn`: a share of CPUs is kept busy, and what work that was is counted."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from hypertare.base.quantities import Working
from hypertare.base.variables import Found, Response
from hypertare.protocol import plan
from hypertare.protocol.phase import Phase
from hypertare.workloads.neighbours import CpuShare
from hypertare.workloads.pair import Pair
from hypertare.workloads.workload import SETTLE_S, TaskInputs, Workload, WorkloadSettings


class BurnSettings(WorkloadSettings):
    type: Literal["burn"]
    share: CpuShare = 1.0
    """The share of one CPU that each thread uses."""
    threads: Annotated[int, Field(ge=1)] = 1
    """Threads that use that share."""
    duration: Working = 2.0
    """The length of a trial."""

    @property
    def expected_s(self) -> float | None:
        return self.duration

    @property
    def limit_s(self) -> float:
        return self.duration + SETTLE_S

    def tasks(self, pair: Pair, inputs: TaskInputs) -> list[plan.Task]:
        work = plan.Burn(share=self.share, duration_s=self.duration, threads=self.threads)
        return [pair.task("burn", pair.node, work)]


class Burn(Workload):
    name = "burn"
    settings = BurnSettings
    own_responses = (
        Response("work_rate", "loops/s", "higher", "units of work done over time"),
        Response("share", "share", "higher", "CPU share received", "mean"),
    )
    headline = "work_rate"
    is_timed = True

    def measure(self, phase: Phase) -> Found:
        loops, elapsed = phase.total("burn", "loops"), phase.total("burn", "elapsed_s")
        return {
            "work_rate": loops / elapsed if loops is not None and elapsed else None,
            "share": phase.total("burn", "share"),
        }


BURN = Burn()
