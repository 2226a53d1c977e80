"""The topology `routers`: systems under test that each forward between two networks of their own. Pure.

Router K stands between the end nodes `a-K` and `b-K`, each on a link that nobody else is on:

    a-K --- lan-aK --- router K --- lan-bK --- b-K

Several platforms may stand side by side on the same links. Each has addresses of its own there, so that
the address which one end sends to decides which router the packets go through.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from hypertare.protocol import plan
from hypertare.study.bench import Family

Side = Literal["a", "b"]
SIDES: tuple[Side, Side] = ("a", "b")


FAMILIES: tuple[Family, Family] = ("ipv4", "ipv6")

_PREFIX_LENGTHS = {"ipv4": 24, "ipv6": 64}
_ROUTER, _END = 1, 2


@dataclass(frozen=True)
class Network:
    """One side of a router, as one platform's nodes are addressed there.

    `router` counts from 1. `way` distinguishes the platforms on the same link.
    """

    router: int
    side: Side
    way: int = 0

    @property
    def index(self) -> int:
        """The number of the side: 0 or 1."""
        return SIDES.index(self.side)

    @property
    def rank(self) -> int:
        """The number of this side's link among the links of all routers, from 0."""
        return 2 * (self.router - 1) + self.index

    @property
    def link(self) -> str:
        return f"lan-{self.side}{self.router}"

    @property
    def end(self) -> str:
        """The node at this side's end."""
        return f"{self.side}-{self.router}"

    @property
    def other(self) -> Network:
        """The same router's other side."""
        return Network(self.router, SIDES[1 - self.index], self.way)

    def prefix(self, family: Family) -> str:
        return f"{self._address(family, 0)}/{_PREFIX_LENGTHS[family]}"

    def router_address(self, family: Family) -> str:
        return self._address(family, _ROUTER)

    def end_address(self, family: Family) -> str:
        return self._address(family, _END)

    def routes(self) -> tuple[plan.Route, ...]:
        """How the end node reaches the other side: through this router and no other."""
        return tuple(
            plan.Route(to=self.other.prefix(family), via=self.router_address(family))
            for family in FAMILIES
        )

    def _address(self, family: Family, host: int) -> str:
        if family == "ipv4":
            return f"10.{78 + self.way}.{self.rank}.{host}"
        return f"fd78:{self.way:x}:{self.router:x}:{self.side}::{host or ''}"


@dataclass(frozen=True)
class Nic:
    """An interface's name in its node, and what it is where that is the machine's choice."""

    name: str
    mac: str | None = None
    model: plan.NicModel | None = None


def networks(router: int, way: int = 0) -> tuple[Network, Network]:
    """Both sides of a router, `a` first."""
    return Network(router, "a", way), Network(router, "b", way)


def all_sides(count: int, way: int = 0) -> list[Network]:
    """Both sides of so many routers."""
    return [side for router in range(1, count + 1) for side in networks(router, way)]


def beyond(side: Network) -> str:
    """The link of the end node where a driver domain's bridge stands between it and the router."""
    return f"wire-{side.side}{side.router}"


def core(way: int = 0) -> str:
    """The link between a platform's routers that learn each other's networks by OSPF."""
    return f"core-{way}"


def shared_links(side: Network) -> tuple[str, str]:
    """The links of all routers and of all end nodes of a side, where one line joins them."""
    return f"lan-{side.side}", f"wire-{side.side}"


def on_shared_lines(node: plan.Node, count: int) -> plan.Node:
    """Returns the node for a bench on which one line per side joins all `count` routers.

    The baseline's node, which has an interface for each router, then has one per side with all their
    addresses.
    """
    near = {side.link: shared_links(side)[0] for side in all_sides(count)}
    ends = {side.end: shared_links(side)[1] for side in all_sides(count)}
    if node.name in ends:
        own = {"link": ends[node.name], "nic": None}
        interfaces = tuple(one.model_copy(update=own) for one in node.interfaces)
        return node.model_copy(update={"interfaces": interfaces})
    joined: dict[str, plan.Interface] = {}
    for one in node.interfaces:
        link = near.get(one.link, one.link)
        first = joined.get(link)
        if first is None:
            joined[link] = one.model_copy(update={"link": link})
            continue
        more = (*first.more_addresses, one.address, *one.more_addresses)
        joined[link] = first.model_copy(update={"more_addresses": more})
    return node.model_copy(update={"interfaces": tuple(joined.values())})


def core_interface(router: int, way: int = 0, nic: Nic | None = None) -> plan.Interface:
    """Returns a router's third interface, on the link `core` between routers."""
    addresses = [f"10.{78 + way}.255.{router}/24", f"fd78:{way:x}:0:c::{router:x}/64"]
    return _interface(core(way), nic or Nic("eth2"), addresses)


def speaking_ospf(router: plan.Node, core: plan.Interface, argv: Sequence[str]) -> plan.Node:
    """The same router with a daemon that announces its networks on the core link and learns the others'."""
    assert router.router is not None
    daemon = plan.Daemon(argv=tuple(argv), neighbours=(core.name,))
    return router.model_copy(
        update={
            "interfaces": (*router.interfaces, core),
            "router": router.router.model_copy(update={"daemon": daemon}),
        }
    )


def end(
    side: Network,
    kind: plan.NodeKind,
    *,
    ways: Iterable[int] = (0,),
    cpus: tuple[int, ...] = (),
    nic: Nic | None = None,
    link: str | None = None,
) -> plan.Node:
    """An end node: on one link, with a way to the other end through each platform's router."""
    sides = [Network(side.router, side.side, way) for way in ways]
    addresses = [_cidr(one.end_address(f), f) for one in sides for f in FAMILIES]
    interface = _interface(link or side.link, nic or Nic("eth0"), addresses)
    routes = [route for one in sides for route in one.routes()]
    return plan.Node(
        name=side.end, kind=kind, cpus=cpus, interfaces=(interface,), routes=tuple(routes)
    )


def router(
    name: str,
    kind: plan.NodeKind,
    numbers: Iterable[int],
    *,
    way: int = 0,
    settings: plan.Router | None = None,
    cpus: tuple[int, ...] = (),
    nics: Callable[[Network], Nic] | None = None,
) -> plan.Node:
    """A node that is the router of this number or, as the host, of several."""
    nics = nics or (lambda side: Nic(f"eth{side.index}"))
    sides = [side for number in numbers for side in networks(number, way)]
    interfaces = [
        _interface(side.link, nics(side), [_cidr(side.router_address(f), f) for f in FAMILIES])
        for side in sides
    ]
    return plan.Node(
        name=name,
        kind=kind,
        cpus=cpus,
        interfaces=tuple(interfaces),
        router=settings or plan.Router(),
    )


def _interface(link: str, nic: Nic, addresses: Sequence[str]) -> plan.Interface:
    return plan.Interface(
        name=nic.name,
        link=link,
        address=addresses[0],
        more_addresses=tuple(addresses[1:]),
        mac=nic.mac,
        nic=nic.model,
    )


def _cidr(address: str, family: Family) -> str:
    return f"{address}/{_PREFIX_LENGTHS[family]}"
