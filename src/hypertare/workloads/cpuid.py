"""`cpuid`: the cheapest exit to a hypervisor, many times."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from hypertare.base.variables import Found, Response
from hypertare.protocol import plan
from hypertare.protocol.phase import Phase
from hypertare.workloads.pair import Pair
from hypertare.workloads.workload import LimitedSettings, TaskInputs, Workload


class CpuidSettings(LimitedSettings):
    type: Literal["cpuid"]
    count: Annotated[int, Field(ge=1, le=1_000_000_000)] = 100_000
    """Executions of a trial."""

    def tasks(self, pair: Pair, inputs: TaskInputs) -> list[plan.Task]:
        return [pair.task("cpuid", pair.node, plan.Cpuid(count=self.count))]


class Cpuid(Workload):
    """CPUID instructions. Each is an exit of a KVM guest; Xen's PV and emulated guests have none."""

    name = "cpuid"
    settings = CpuidSettings
    own_responses = (Response("cpuid_time", "s", "lower", "time of one CPUID instruction", "mean"),)
    headline = "cpuid_time"
    translates = True

    def measure(self, phase: Phase) -> Found:
        elapsed = phase.total("cpuid", "elapsed_s")
        count = phase.total("cpuid", "cpuids")
        return {"cpuid_time": elapsed / count if elapsed is not None and count else None}


CPUID = Cpuid()
