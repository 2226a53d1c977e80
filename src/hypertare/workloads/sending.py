"""What every workload has that sends for a while, at a rate or as fast as it goes."""

from __future__ import annotations

from pydantic import model_validator

from hypertare.base.quantities import OfCapacity, OfferedRate, Waiting, Working
from hypertare.workloads.workload import SETTLE_S, WorkloadSettings


class SendingSettings(WorkloadSettings):
    rate: OfferedRate = None
    duration: Working = 2.0
    omit: Waiting = 0.2
    interval: Working = 0.25

    @model_validator(mode="after")
    def _measures(self) -> SendingSettings:
        if self.omit >= self.duration:
            raise ValueError("'omit' must be shorter than 'duration'")
        return self

    @property
    def expected_s(self) -> float | None:
        return self.duration

    @property
    def limit_s(self) -> float:
        return self.duration + self.omit + SETTLE_S

    @property
    def left_out_s(self) -> float:
        return self.omit

    @property
    def is_share_of_capacity(self) -> bool:
        return isinstance(self.rate, OfCapacity)
