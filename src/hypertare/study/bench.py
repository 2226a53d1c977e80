"""`[bench]`: what lies around the system under test."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from hypertare.base.quantities import LineRate
from hypertare.base.settings import Settings
from hypertare.knobs.mtu import MtuBytes
from hypertare.protocol.plan import Discipline

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
