"""`fork`: a program is forked, executed and ended, many times."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from hypertare.base import paths
from hypertare.base.quantities import Size
from hypertare.base.variables import ELAPSED, Found, Response
from hypertare.protocol import plan
from hypertare.protocol.phase import Phase
from hypertare.workloads.pair import Pair
from hypertare.workloads.workload import GivenWork, LimitedSettings, TaskInputs, Workload


class ForkSettings(LimitedSettings):
    type: Literal["fork"]
    count: Annotated[int, Field(ge=1, le=1_000_000_000)] = 300
    """Forks of a trial."""
    touch: Annotated[Size, Field(ge=0, le=1 << 40)] = 1 << 20
    """Memory that each child writes to, one byte a page of 4 KB."""

    def given_work(self) -> GivenWork:
        sizes = ("--count", str(self.count), "--touch", str(self.touch))
        return GivenWork((paths.AGENT, "fork", *sizes, "--quiet"))

    def tasks(self, pair: Pair, inputs: TaskInputs) -> list[plan.Task]:
        work = plan.Fork(count=self.count, touch=self.touch)
        return [pair.task("fork", pair.node, work)]


class Fork(Workload):
    name = "fork"
    settings = ForkSettings
    own_responses = (
        Response(ELAPSED, "s", "lower", "elapsed time", "most"),
        Response("fork_rate", "forks/s", "higher", "programs forked, executed and ended over time"),
        Response("user", "s", "lower", "CPU time in user mode"),
        Response("system", "s", "lower", "CPU time in the kernel"),
        Response("minor_faults", "faults", "lower", "minor page faults"),
    )
    headline = ELAPSED
    translates = True

    def measure(self, phase: Phase) -> Found:
        return {
            "elapsed": phase.total("fork", "elapsed_s"),
            "fork_rate": phase.task_rate("fork", "forks"),
            "user": phase.total("fork", "user_s"),
            "system": phase.total("fork", "system_s"),
            "minor_faults": phase.total("fork", "minor_faults"),
        }


FORK = Fork()
