"""`sleep`: how late threads wake that asked for a time."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, Field, model_validator

from hypertare.base.quantities import Duration, Working, between
from hypertare.base.variables import Found, Response, Values
from hypertare.protocol import plan
from hypertare.protocol.phase import Phase
from hypertare.workloads.latencies import in_seconds, percentiles
from hypertare.workloads.pair import Pair
from hypertare.workloads.workload import (
    SETTLE_S,
    NodeFacts,
    TaskInputs,
    Workload,
    WorkloadSettings,
)

Interval = Annotated[
    Duration,
    # 10 times 1e-6 is a little less than 1e-5.
    AfterValidator(lambda seconds: round(seconds, 9)),
    between(1e-5, 0.05, "10 us to 50 ms"),
]
"""As long as the agent's tasks may take to heed a stop, at most."""


class SleepSettings(WorkloadSettings):
    type: Literal["sleep"]
    interval: Interval = 1e-3
    """The time from one wake-up to the next."""
    threads: Annotated[int, Field(ge=1)] = 1
    """Threads, each on a CPU of its own; one alone on any."""
    duration: Working = 2.0
    """The length of a trial."""

    @model_validator(mode="after")
    def _wakes(self) -> SleepSettings:
        if self.interval > self.duration:
            raise ValueError("'interval' is longer than 'duration': no thread would wake in time")
        return self

    @property
    def expected_s(self) -> float | None:
        return self.duration

    @property
    def limit_s(self) -> float:
        return self.duration + SETTLE_S

    def misfit(self, node: NodeFacts) -> str | None:
        """One alone may go where it is taken."""
        if self.threads == 1 or self.threads <= node.cpus:
            return None
        return f"'threads' is {self.threads}, each with a CPU of its own, but it has {node.cpus} (sut.cpus)"

    def tasks(self, pair: Pair, inputs: TaskInputs) -> list[plan.Task]:
        work = plan.Sleep(interval_s=self.interval, duration_s=self.duration, threads=self.threads)
        return [pair.task("sleep", pair.node, work)]


class Sleep(Workload):
    name = "sleep"
    settings = SleepSettings
    own_responses = (
        Response("wakeup_p50", "s", "lower", "median wake-up latency", "mean"),
        Response("wakeup_p99", "s", "lower", "99th percentile of the wake-up latency", "most"),
        Response("wakeup_p999", "s", "lower", "99.9th percentile of the wake-up latency", "most"),
        Response("wakeup_max", "s", "lower", "greatest wake-up latency", "most"),
        Response("wakeups", "wakeups", "higher", "wake-ups that were measured"),
        Response("missed", "wakeups", "lower", "wake-ups whose time was over before the last woke"),
    )
    headline = "wakeup_p50"
    is_timed = True

    def measure(self, phase: Phase) -> Found:
        late = ("wakeup_p50", "wakeup_p99", "wakeup_p999", "wakeup_max")
        values = in_seconds(phase, "sleep", late)
        return values | {name: phase.total("sleep", name) for name in ("wakeups", "missed")}

    def measure_together(self, parts: dict[int, Values], joined: Values, phase: Phase) -> Found:
        """Percentiles come from one histogram of all wake-ups of all guests."""
        return percentiles(phase, "sleep", "wakeup")


SLEEP = Sleep()
