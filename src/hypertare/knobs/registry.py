"""Every knob there is: a new one is entered here, in both places."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

from pydantic import Field

from hypertare.base.quantities import Cpus, Size
from hypertare.base.settings import Settings
from hypertare.knobs.busy_poll import BUSY_POLL
from hypertare.knobs.defer_hard_irqs import DEFER_HARD_IRQS, DeferSettings
from hypertare.knobs.dev_weight import DEV_WEIGHT, BacklogWeight
from hypertare.knobs.driver_weight import DRIVER_WEIGHT
from hypertare.knobs.guest_weights import GUEST_WEIGHTS
from hypertare.knobs.halt_poll_ns import HALT_POLL_NS, HaltPoll
from hypertare.knobs.host_thp import HOST_THP
from hypertare.knobs.interrupt_coalescing import INTERRUPT_COALESCING, CoalescingSettings
from hypertare.knobs.interrupt_cpus import INTERRUPT_CPUS
from hypertare.knobs.knob import Count, KnobKind, Weight
from hypertare.knobs.ksm import KSM, KsmSettings
from hypertare.knobs.mtu import MTU, MtuBytes
from hypertare.knobs.napi_budget import NAPI_BUDGET, NapiBudgetSettings
from hypertare.knobs.napi_weight import NAPI_WEIGHT, PollWeight
from hypertare.knobs.offloads import OFFLOADS
from hypertare.knobs.receive_steering import RECEIVE_STEERING
from hypertare.knobs.ring_sizes import RING_SIZES, RingSettings
from hypertare.knobs.socket_buffers import SOCKET_BUFFERS
from hypertare.knobs.sysctls import SYSCTLS, SysctlName, SysctlValue
from hypertare.knobs.thp import THP, ThpSettings
from hypertare.knobs.traffic_classes import TRAFFIC_CLASSES, TrafficClassSettings

KINDS: tuple[KnobKind[Any], ...] = (
    MTU,
    RING_SIZES,
    OFFLOADS,
    SOCKET_BUFFERS,
    SYSCTLS,
    RECEIVE_STEERING,
    INTERRUPT_CPUS,
    NAPI_WEIGHT,
    NAPI_BUDGET,
    DEV_WEIGHT,
    INTERRUPT_COALESCING,
    BUSY_POLL,
    DEFER_HARD_IRQS,
    TRAFFIC_CLASSES,
    DRIVER_WEIGHT,
    GUEST_WEIGHTS,
    THP,
    HOST_THP,
    KSM,
    HALT_POLL_NS,
)
"""In the order in which a trial sets them."""

HOST_KNOBS = tuple(kind.name for kind in KINDS if kind.place == "below")
"""Those of the machine below a guest."""


class Knobs(Settings):
    """Settings applied for each trial and put back after it. Those of a link apply to both its ends."""

    mtu: MtuBytes | None = None
    offloads: dict[str, bool] = {}
    socket_buffers: Annotated[Size, Field(ge=1)] | None = None
    sysctls: dict[SysctlName, SysctlValue] = {}
    interrupt_cpus: Cpus | None = None
    receive_steering: Cpus | None = None
    napi_weight: PollWeight | None = None
    napi_budget: NapiBudgetSettings | None = None
    dev_weight: BacklogWeight | None = None
    ring_sizes: RingSettings | None = None
    interrupt_coalescing: CoalescingSettings | None = None
    busy_poll: Count | None = None
    defer_hard_irqs: DeferSettings | None = None
    thp: ThpSettings | None = None
    host_thp: ThpSettings | None = None
    ksm: KsmSettings | None = None
    halt_poll_ns: HaltPoll | None = None
    traffic_classes: TrafficClassSettings | None = None
    driver_weight: Weight | None = None
    guest_weights: tuple[Weight, ...] | None = None

    def level(self, kind: KnobKind[Any]) -> Any:
        """What the study says of it; none where it is left as it is."""
        return getattr(self, kind.name)

    def given(self) -> Iterator[KnobKind[Any]]:
        """Those that are set, in the order of `KINDS`."""
        return (kind for kind in KINDS if self.level(kind) is not None)
