"""`[knobs]`: settings of kernels and of schedulers."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field, model_validator

from hypertare.base.quantities import Size
from hypertare.base.settings import Settings
from hypertare.protocol.plan import ThpDefrag, ThpEnabled

Weight = Annotated[int, Field(ge=1, le=65535)]
"""Of a scheduler: xl(1), sched-credit and sched-credit2."""
Count = Annotated[int, Field(ge=0, le=(1 << 31) - 1)]


class NapiBudgetSettings(Settings):
    """What one softirq may take; without `microseconds` the kernel's limit of time stays."""

    packets: Annotated[int, Field(ge=1, le=(1 << 31) - 1)]
    microseconds: Count | None = None


class CoalescingSettings(Settings):
    """As in ethtool(8); what is not given stays as it is."""

    rx_usecs: Count | None = None
    rx_frames: Count | None = None
    tx_usecs: Count | None = None
    tx_frames: Count | None = None
    adaptive_rx: bool | None = None

    @model_validator(mode="after")
    def _something(self) -> CoalescingSettings:
        if not self.model_fields_set:
            raise ValueError("nothing is set")
        return self


class DeferSettings(Settings):
    """Empty polls before the interrupt is switched on again, and nanoseconds to a timer's poll."""

    polls: Count
    flush_timeout_ns: Annotated[int, Field(ge=0, le=(1 << 63) - 1)]


class ThpSettings(Settings):
    """Transparent huge pages; a text alone is `enabled`. What is not given stays as it is."""

    enabled: ThpEnabled
    defrag: ThpDefrag | None = None
    scan_sleep_ms: Count | None = None

    @model_validator(mode="before")
    @classmethod
    def _short(cls, given: Any) -> Any:
        return {"enabled": given} if isinstance(given, str) else given


class KsmSettings(Settings):
    """Same-page merging; true or false alone is `run`. What is not given stays as it is."""

    run: bool = True
    pages_to_scan: Annotated[int, Field(ge=1, le=(1 << 31) - 1)] | None = None
    sleep_ms: Count | None = None

    @model_validator(mode="before")
    @classmethod
    def _short(cls, given: Any) -> Any:
        return {"run": given} if isinstance(given, bool) else given


class Knobs(Settings):
    """Settings applied for each trial and put back after it. Those of a link apply to both its ends."""

    mtu: Annotated[int, Field(ge=576, le=65535)] | None = None
    offloads: dict[str, bool] = {}
    socket_buffers: Size | None = None
    interrupt_cpus: tuple[int, ...] | None = None
    receive_steering: tuple[int, ...] | None = None
    napi_weight: Annotated[int, Field(ge=1, le=1024)] | None = None
    napi_budget: NapiBudgetSettings | None = None
    dev_weight: Annotated[int, Field(ge=1, le=(1 << 31) - 1)] | None = None
    interrupt_coalescing: CoalescingSettings | None = None
    busy_poll: Count | None = None
    defer_hard_irqs: DeferSettings | None = None
    thp: ThpSettings | None = None
    host_thp: ThpSettings | None = None
    ksm: KsmSettings | None = None
    driver_weight: Weight | None = None
    guest_weights: tuple[Weight, ...] | None = None


HOST_KNOBS = ("host_thp", "ksm")
"""Those of the machine below a guest."""
