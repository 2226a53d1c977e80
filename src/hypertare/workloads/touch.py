"""`touch`: dependent reads at random places of a working set."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from hypertare.base import paths
from hypertare.base.quantities import Duration, Size
from hypertare.base.variables import ELAPSED, Found, Response
from hypertare.protocol import plan
from hypertare.protocol.constants import HUGE_PAGE
from hypertare.protocol.phase import Phase
from hypertare.workloads.pair import Pair
from hypertare.workloads.workload import GivenWork, LimitedSettings, TaskInputs, Workload


class TouchSettings(LimitedSettings):
    type: Literal["touch"]
    memory: Annotated[Size, Field(ge=4096, le=1 << 46)] = 64 << 20
    """Bytes of the working set; filling it is not in `elapsed`."""
    pages: plan.Pages | None = None
    """Pages of the working set: `4K`, `2M` (reserved by the kernel argument `hugepages=N`), `thp`.
    Default: the kernel's choice.
    """
    count: Annotated[int, Field(ge=1, lt=1 << 63)] | None = None
    """Reads after which a trial ends."""
    duration: Annotated[Duration, Field(gt=0, le=86_400)] | None = None
    """The time after which a trial ends. Default: 2s where there is no `count`."""

    @model_validator(mode="after")
    def _fits(self) -> TouchSettings:
        if self.count is not None and self.duration is not None:
            raise ValueError("'count' and 'duration' both say when to end: give one of them")
        page = HUGE_PAGE if self.pages == "2M" else 4096
        if self.memory % page:
            raise ValueError(f"'memory' is {self.memory} bytes, which is no multiple of {page}")
        return self

    @property
    def expected_s(self) -> float | None:
        """None where a count ends it."""
        return (self.duration or 2.0) if self.count is None else None

    @property
    def asked_pages(self) -> plan.Pages | None:
        return self.pages

    def given_work(self) -> GivenWork | None:
        """In small pages wherever this host would put it: which pages there are, the model decides."""
        if self.count is None:
            return None
        sizes = ("--memory", str(self.memory), "--count", str(self.count))
        return GivenWork((paths.AGENT, "touch", *sizes, "--pages", "4K", "--quiet"))

    def tasks(self, pair: Pair, inputs: TaskInputs) -> list[plan.Task]:
        work = plan.Touch(
            memory=self.memory, pages=self.pages, count=self.count, duration_s=self.expected_s
        )
        return [pair.task("touch", pair.node, work)]


class Touch(Workload):
    name = "touch"
    settings = TouchSettings
    own_responses = (
        Response("access_rate", "reads/s", "higher", "dependent random reads over time"),
        Response(ELAPSED, "s", "lower", "elapsed time of the reads", "most"),
        Response("minor_faults", "faults", "lower", "minor page faults during the reads"),
        Response("setup_time", "s", "lower", "time to fill the working set", "most"),
        Response("setup_faults", "faults", "lower", "page faults of filling the working set"),
        Response(
            "huge_share", "share", "higher", "share of the working set in pages of 2 MB", "mean"
        ),
    )
    headline = "access_rate"
    translates = True

    def measure(self, phase: Phase) -> Found:
        memory, huge = phase.total("touch", "memory_bytes"), phase.total("touch", "huge_bytes")
        return {
            "access_rate": phase.task_rate("touch", "accesses"),
            "elapsed": phase.total("touch", "elapsed_s"),
            "minor_faults": phase.total("touch", "minor_faults"),
            "setup_time": phase.total("touch", "setup_s"),
            "setup_faults": phase.total("touch", "setup_faults"),
            "huge_share": huge / memory if huge is not None and memory else None,
        }


TOUCH = Touch()
