"""The topology `routers`: systems under test that each forward between two networks of their own. Pure.

Router K stands between the end nodes `a-K` and `b-K`, each on a link that nobody else is on:

    a-K --- lan-aK --- router K --- lan-bK --- b-K

Several platforms may stand side by side on the same links. Each has addresses of its own there, so that
the address which one end sends to decides which router the packets go through.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from hypertare import plan

Side = Literal["a", "b"]
SIDES: tuple[Side, Side] = ("a", "b")
Family = Literal["ipv4", "ipv6"]

MOST = 100
"""Routers and platforms that the address plan has room for."""

_ROUTER, _END = 1, 2


@dataclass(frozen=True)
class Network:
    """One side of a router, as one platform's nodes are addressed there.

    `way` tells the platforms on the same link apart.
    """

    router: int
    side: Side
    way: int = 0

    @property
    def link(self) -> str:
        return f"lan-{self.side}{self.router}"

    @property
    def end(self) -> str:
        """The node at this side's end."""
        return f"{self.side}-{self.router}"

    @property
    def other(self) -> Network:
        return Network(self.router, "b" if self.side == "a" else "a", self.way)

    def prefix(self, family: Family) -> str:
        if family == "ipv4":
            return f"{self._ipv4}.0/24"
        return f"{self._ipv6}::/64"

    def router_address(self, family: Family) -> str:
        return self._address(family, _ROUTER)

    def end_address(self, family: Family) -> str:
        return self._address(family, _END)

    def routes(self) -> tuple[plan.Route, ...]:
        """How the end node reaches the other side: through this router and no other."""
        return tuple(
            plan.Route(to=self.other.prefix(family), via=self.router_address(family))
            for family in ("ipv4", "ipv6")
        )

    @property
    def _ipv4(self) -> str:
        return f"10.{78 + self.way}.{2 * self.router + SIDES.index(self.side)}"

    @property
    def _ipv6(self) -> str:
        return f"fd78:{self.way:x}:{self.router:x}:{self.side}"

    def _address(self, family: Family, host: int) -> str:
        return f"{self._ipv4}.{host}" if family == "ipv4" else f"{self._ipv6}::{host}"


def networks(router: int, way: int = 0) -> tuple[Network, Network]:
    """Both sides of a router, `a` first."""
    return Network(router, "a", way), Network(router, "b", way)


def links(
    count: int, mtu: int = 1500, kind: Literal["bridge", "hub"] = "bridge"
) -> tuple[plan.Link, ...]:
    """Two links a router, on which only it and its ends are."""
    sides = [side for router in _numbers(count) for side in networks(router)]
    return tuple(plan.Link(name=side.link, kind=kind, mtu=mtu) for side in sides)


def interface(
    side: Network,
    name: str,
    *,
    of_router: bool,
    ways: Sequence[int] = (),
    mac: str | None = None,
    nic: plan.NicModel | None = None,
) -> plan.Interface:
    """An interface of a router, or of an end, on this side; an end is on it in every one of `ways`."""
    sides = [Network(side.router, side.side, way) for way in ways] or [side]
    addresses = [
        f"{one.router_address('ipv4') if of_router else one.end_address('ipv4')}/24"
        for one in sides
    ] + [
        f"{one.router_address('ipv6') if of_router else one.end_address('ipv6')}/64"
        for one in sides
    ]
    return plan.Interface(
        name=name,
        link=side.link,
        address=addresses[0],
        more_addresses=tuple(addresses[1:]),
        mac=mac,
        nic=nic,
    )


def end(
    side: Network,
    kind: plan.NodeKind,
    *,
    ways: Sequence[int] = (0,),
    cpus: tuple[int, ...] = (),
    mac: str | None = None,
    nic: plan.NicModel | None = None,
) -> plan.Node:
    """An end node: on one link, with a way to the other end through each platform's router."""
    routes = [route for way in ways for route in Network(side.router, side.side, way).routes()]
    return plan.Node(
        name=side.end,
        kind=kind,
        cpus=cpus,
        interfaces=(interface(side, "eth0", of_router=False, ways=ways, mac=mac, nic=nic),),
        routes=tuple(routes),
    )


def router(
    name: str,
    kind: plan.NodeKind,
    routers: Sequence[int],
    *,
    way: int = 0,
    settings: plan.Router | None = None,
    cpus: tuple[int, ...] = (),
    macs: Sequence[str | None] = (),
    nic: plan.NicModel | None = None,
) -> plan.Node:
    """A node that is one router, or, as the host, all of them.

    `macs`: of its interfaces, in the order of `routers`, side `a` before side `b`.
    """
    sides = [side for number in routers for side in networks(number, way)]
    given = list(macs) or [None] * len(sides)
    interfaces = tuple(
        interface(side, f"eth{index}", of_router=True, mac=mac, nic=nic)
        for index, (side, mac) in enumerate(zip(sides, given, strict=True))
    )
    return plan.Node(
        name=name,
        kind=kind,
        cpus=cpus,
        interfaces=interfaces,
        router=settings or plan.Router(),
    )


def _numbers(count: int) -> range:
    return range(1, count + 1)
