"""`[bench]`: what lies around the system under test."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field, model_validator

from hypertare.base.closed import Settings
from hypertare.base.figures import listing
from hypertare.base.quantities import LineRate
from hypertare.knobs.mtu import MOST_OF_NIC, MtuBytes
from hypertare.platforms.registry import has_own, names_of
from hypertare.protocol.plan import Discipline

if TYPE_CHECKING:
    from hypertare.study.study import Study

Family = Literal["ipv4", "ipv6"]


LEAST_IPV6_MTU = 1280
"""RFC 8200, section 5."""

LEAST_TCP_MTU = 88
"""Linux: headers of 40 bytes, and tcp_min_snd_mss, which is 48 (CVE-2019-11479)."""

Routing = Literal["static", "ospf"]


class BenchSettings(Settings):
    """What lies around the system under test."""

    mtu: MtuBytes = 1500
    """The MTU of the link, in bytes."""
    topology: Literal["hosts", "routers"] = "hosts"
    """Each system under test has a peer, a network namespace on the CPUs left free; or `routers`: each
    stands between [two end nodes](routers.md).
    """
    family: Family = "ipv4"
    """The IP version of the ends of routers; or `ipv6`."""
    queue: Discipline | None = None
    """The queueing discipline of each interface of a router: `pfifo`, `pfifo_fast`, `fq_codel`, `noqueue`.
    Default: the kernel's.
    """
    queue_length: Annotated[int, Field(ge=1, le=1_000_000)] | None = None
    """Packets that this queue holds. Default: the kernel's."""
    routing: Routing | tuple[Routing, ...] = "static"
    """How routers in containers and guests learn of networks; or `ospf`; a list gives each [its
    own](routers.md#routing-by-ospf).
    """
    peers: Literal["driver", "guest"] = "driver"
    """What the peers of Xen's guests are: processes of the driver domain; `guest`: guests too."""
    driver: Literal["bridge", "route"] = "bridge"
    """How Xen's driver domain joins guests to the NIC; or `route`, [by IP](xen.md#bridge-or-route)."""
    line_rate: LineRate = None
    """The rate of one [line](design.md#the-line) to all peers, each way, on the wire: `"20 Mb/s"`. With
    `routers` there is one on either side of all, which are then not kept apart. Default: `"none"`.
    """

    @model_validator(mode="after")
    def _of_the_topology(self) -> BenchSettings:
        if self.topology == "hosts":
            given = {"family", "queue", "queue_length", "routing"} & self.model_fields_set
            if given:
                raise ValueError(
                    f"{', '.join(sorted(given))}: for the topology 'routers' only; "
                    'set bench.topology = "routers"'
                )
        if self.topology == "routers" and self.driver == "route":
            raise ValueError(
                "bench.driver = 'route' is for the topology 'hosts': routers have bridges of their own"
            )
        if self.family == "ipv6" and self.mtu < LEAST_IPV6_MTU:
            raise ValueError(f"IPv6 needs an MTU of {LEAST_IPV6_MTU} bytes, not {self.mtu}")
        return self

    @property
    def peers_are_guests(self) -> bool:
        return self.peers != "driver"

    def routing_of(self, router: int) -> Routing:
        """How the router of this number, from 1, knows of networks."""
        return self.routing if isinstance(self.routing, str) else self.routing[router - 1]


# --- rules


def line_can_be_had(study: Study) -> None:
    """A line of a limited rate has something to carry, and a NIC that keeps to it."""
    if study.bench.line_rate is None:
        return
    if not study.needs_network:
        raise ValueError("bench.line_rate is set, but no workload sends anything: leave it out")
    needed = study.machine_kind.line_nic
    if needed is not None and study.sut.nic != needed:
        raise ValueError(
            f"bench.line_rate needs sut.nic = '{needed}' on an emulated machine, not "
            f"'{study.sut.nic}': of QEMU's NICs only that one sends by a clock"
        )
    if study.knobs.mtu is not None and study.knobs.mtu > study.bench.mtu:
        raise ValueError(
            f"knobs.mtu is {study.knobs.mtu}, but the line has bench.mtu = {study.bench.mtu}: "
            "raise that too"
        )


def rings_are_of_a_line(study: Study) -> None:
    """Only the emulated machine's cards hold what waits for a line."""
    if study.knobs.line_ring is None:
        return
    if not study.has_line or not study.machine_kind.boots_whole_pcs:
        raise ValueError(
            "knobs.line_ring is of the cards at the ends of an emulated machine's line: set "
            "bench.line_rate with machine = 'emulated', or knobs.line_ring = 'none'"
        )


def frames_fit_the_line(study: Study) -> None:
    """An emulated line's cards count frames, each as long as one of `bench.mtu`."""
    limited = study.machine_kind.line_counts_frames and study.has_line
    if limited and study.largest_mtu > study.bench.mtu:
        raise ValueError(
            f"knobs.mtu goes up to {study.largest_mtu}, but on the emulated machine's line a frame takes "
            f"the time of one of bench.mtu, {study.bench.mtu} bytes: larger ones would be carried for "
            f"nothing. Set bench.mtu = {study.largest_mtu}"
        )


def segments_fit_the_frames(study: Study) -> None:
    """Linux's TCP makes no segment of less than 48 bytes (net.ipv4.tcp_min_snd_mss), 88 with its headers,
    and marks it as not to be cut up: on a link that takes less, a connection stands still.
    """
    mtu = study.bench.mtu if study.knobs.mtu is None else study.knobs.mtu
    tcp = [name for name, one in study.workloads.items() if getattr(one, "protocol", "") == "tcp"]
    if tcp and mtu < LEAST_TCP_MTU:
        raise ValueError(
            f"an MTU of {mtu} bytes is too little for TCP ({listing(tcp)}), which makes no packets of less "
            f"than {LEAST_TCP_MTU}: take that, or protocol = 'udp' in a study without TCP"
        )


def frames_fit_the_nics(study: Study) -> None:
    """Links are made for the largest MTU of all cells, and every level meets every NIC."""
    if (
        study.knobs.mtu is not None
        and study.bench.family == "ipv6"
        and study.knobs.mtu < LEAST_IPV6_MTU
    ):
        raise ValueError(
            f"IPv6 needs an MTU of {LEAST_IPV6_MTU} bytes, not {study.knobs.mtu} (knobs.mtu)"
        )
    own = any(has_own(platform, "sut.nic") for platform in study.platforms)
    if not study.needs_network or not (own or study.machine_kind.boots_whole_pcs):
        return
    for nic in study.levels("sut.nic"):
        most = MOST_OF_NIC.get(nic)
        if most is not None and study.largest_mtu > most:
            raise ValueError(
                f"an MTU of {study.largest_mtu} bytes is too much for sut.nic = '{nic}': its driver takes "
                f"{most} at most: take a smaller one, or virtio-net, which takes any"
            )


def routing_can_be_had(study: Study) -> None:
    """Each router knows how it learns of networks."""
    routing = study.bench.routing
    if not isinstance(routing, str) and len(routing) < study.bench_guests:
        raise ValueError(
            f"bench.routing has {len(routing)} of them for {study.bench_guests} routers: give one "
            "each, or one word for all"
        )
    if study.speaks_ospf and all(platform.is_host for platform in study.platforms):
        raise ValueError(
            "bench.routing = 'ospf' is for routers that are containers or guests: natively one "
            "kernel is all of them and knows every network. Add a platform to sut.platforms"
        )


def peers_and_driver_can_be_had(study: Study) -> None:
    """Peers that are guests, and a driver domain that routes, are there to be had."""
    if study.bench.peers_are_guests and not any(p.has_guests_as_peers for p in study.platforms):
        names = names_of(lambda platform: platform.has_guests_as_peers)
        raise ValueError(f"bench.peers = 'guest' is for the platform {names}")
    if study.bench.driver != "route":
        return
    if not study.under_hypervisor:
        names = names_of(lambda platform: platform.under_hypervisor)
        raise ValueError(f"bench.driver = 'route' is for the platform {names}")
    if not study.machine_kind.boots_whole_pcs:
        raise ValueError(
            "bench.driver = 'route' needs machine = 'emulated': on a host of your own the driver "
            "domain's addresses and routes are left alone"
        )


def classes_are_of_a_driver_domain(study: Study) -> None:
    """Traffic waits in classes where a driver domain of this bench sends it, below the line's rate."""
    classes, line = study.knobs.traffic_classes, study.bench.line_rate
    if classes is None:
        return
    if not study.under_hypervisor or not study.machine_kind.boots_whole_pcs:
        names = names_of(lambda platform: platform.under_hypervisor)
        raise ValueError(
            "knobs.traffic_classes is of the driver domain that sends what guests do, and this bench has "
            f"none: add '{names}' to sut.platforms, with machine = 'emulated', or leave it out"
        )
    if line is not None and classes.rate >= line:
        raise ValueError(
            f"knobs.traffic_classes.rate is {classes.rate / 1e6:g} Mb/s and bench.line_rate "
            f"{line / 1e6:g} Mb/s: packets would wait in the NIC, where no class passes another; take at "
            "most 95 % of the line's"
        )


def driver_domain_is_a_bridge(study: Study) -> None:
    """Where the driver domain is under test itself, its end is the bridge."""
    driver = next((one for one in study.platforms if one.is_host and one.under_hypervisor), None)
    if driver is None:
        return
    if study.bench.driver == "route":
        raise ValueError(
            f"the platform {driver.name} is the driver domain with its bridge, and bench.driver = 'route' "
            f"is for its guests: take bench.driver = 'bridge', or leave {driver.name} out of sut.platforms"
        )
    if study.routed:
        raise ValueError(
            f"the platform {driver.name} is for the topology 'hosts': leave it out of sut.platforms, or "
            "take bench.topology = 'hosts'"
        )
