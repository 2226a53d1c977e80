"""Every knob there is: a new one is entered here, in both places."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

from pydantic import Field

from hypertare.base.closed import Settings
from hypertare.base.quantities import Cpus, Size
from hypertare.knobs.busy_poll import BUSY_POLL
from hypertare.knobs.halt_poll_ns import HALT_POLL_NS, HaltPoll
from hypertare.knobs.interrupts import (
    DEFER_HARD_IRQS,
    INTERRUPT_COALESCING,
    INTERRUPT_CPUS,
    CoalescingSettings,
    DeferSettings,
)
from hypertare.knobs.knob import Count, KnobKind, Weight, Weights
from hypertare.knobs.ksm import KSM, KsmSettings
from hypertare.knobs.mtu import MTU, MtuBytes
from hypertare.knobs.napi import (
    DEV_WEIGHT,
    NAPI_BUDGET,
    NAPI_WEIGHT,
    BacklogWeight,
    NapiBudgetSettings,
    PollWeight,
)
from hypertare.knobs.offloads import OFFLOADS
from hypertare.knobs.receive_steering import RECEIVE_STEERING
from hypertare.knobs.rings import LINE_RING, RING_SIZES, RingLength, RingSettings
from hypertare.knobs.scheduler_weights import DRIVER_WEIGHT, GUEST_WEIGHTS
from hypertare.knobs.socket_buffers import SOCKET_BUFFERS
from hypertare.knobs.sysctls import SYSCTLS, SysctlName, SysctlValue
from hypertare.knobs.thp import HOST_THP, THP, ThpSettings
from hypertare.knobs.traffic_classes import TRAFFIC_CLASSES, TrafficClassSettings

KINDS: tuple[KnobKind[Any], ...] = (
    MTU,
    RING_SIZES,
    LINE_RING,
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
    """The MTU of both ends, as `bench.mtu`."""
    offloads: dict[str, bool] = {}
    """Offloads of both ends, `{ tso = false, gro = false }`; they are off on [the ports of bridges
    between](xen.md#offloads-on-the-way).
    """
    socket_buffers: Annotated[Size, Field(ge=1)] | None = None
    """Default and largest socket buffer, both ends."""
    sysctls: dict[SysctlName, SysctlValue] = {}
    """Any setting of the network by its name, with slashes: `{"net/ipv4/tcp_notsent_lowat" = 16384}`; as a
    factor `"knobs.sysctls.net/ipv4/tcp_notsent_lowat"`. What the kernel has once for all namespaces is
    refused by the agent, but in guests.
    """
    interrupt_cpus: Cpus | None = None
    """CPUs that serve the interface's interrupts (system under test): a list as `receiver_cpus`."""
    receive_steering: Cpus | None = None
    """CPUs of receive packet steering (system under test): a list as `receiver_cpus`."""
    napi_weight: PollWeight | None = None
    """Packets of one poll of the NIC (system under test)."""
    napi_budget: NapiBudgetSettings | None = None
    """The budget of one softirq: `{ packets = 300 }`, also `microseconds` (net.core.netdev_budget,
    netdev_budget_usecs).
    """
    dev_weight: BacklogWeight | None = None
    """Packets of one poll of the CPU's backlog."""
    ring_sizes: RingSettings | None = None
    """Descriptors of the NIC's rings, as `ethtool -G`: `{ rx = 1024, tx = 1024 }`."""
    line_ring: RingLength = None
    """Descriptors of the ring from which each card sends into the [line](design.md#the-line) (emulated):
    32, 64, 128, or 256; `"none"`: the card's own, 256. It holds 18 frames fewer, and they leave while
    the CPU is elsewhere.
    """
    interrupt_coalescing: CoalescingSettings | None = None
    """Interrupt coalescing, as in ethtool(8): `{ rx_usecs = 50 }`, also `rx_frames`, `tx_usecs`,
    `tx_frames`, `adaptive_rx`.
    """
    busy_poll: Count | None = None
    """How long a reader polls the NIC before it sleeps, in µs (net.core.busy_poll, busy_read)."""
    defer_hard_irqs: DeferSettings | None = None
    """`{ polls = 2, flush_timeout_ns = 20000 }`: the interrupt is on again after so many empty polls, or
    so long.
    """
    thp: ThpSettings | None = None
    """Transparent huge pages of the kernel that the work runs on: `"always"`, `"madvise"`, `"never"`, or
    `{ enabled = "always", defrag = "madvise", scan_sleep_ms = 100 }`.
    """
    host_thp: ThpSettings | None = None
    """The same for the machine below a guest."""
    ksm: KsmSettings | None = None
    """Same-page merging below a guest: `true`, `false`, or `{ run = true, pages_to_scan = 1000, sleep_ms =
    20 }`. Off takes merged pages apart.
    """
    halt_poll_ns: HaltPoll | None = None
    """How long KVM below a guest polls for a halted virtual CPU's wake-up at most, in ns."""
    traffic_classes: TrafficClassSettings | None = None
    """Of what Xen's driver domain sends for its guests (emulated): `{ rate = "7.6 Mb/s" }` on the wire,
    below the line's, shared by the packets with the mark `dscp` (46) and all others. `scheme`: `priority`,
    the marked go first; `share`, they have that `share` (50 %) in any case; `none`, one class. HTB's
    classes, each may use what the other leaves.
    """
    driver_weight: Weight | None = None
    """The driver domain's weight in Xen's scheduler, normally 256; for guests of this host the weight of
    [what moves their packets](routers.md#the-driver-domain-of-this-host).
    """
    guest_weights: Weights | None = None
    """The guests' weights in Xen's scheduler, normally 256: a list in their order. Varied, a list of lists:
    `[[256, 512], [512, 256]]`.
    """

    def level(self, kind: KnobKind[Any]) -> Any:
        """What the study says of it; none where it is left as it is."""
        return getattr(self, kind.name)

    def given(self) -> Iterator[KnobKind[Any]]:
        """Those that are set, in the order of `KINDS`."""
        return (kind for kind in KINDS if self.level(kind) is not None)
