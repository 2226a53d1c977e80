"""Names and addresses of nodes, links and NICs on every bench."""

from __future__ import annotations

from hypertare.design import routers
from hypertare.design.design import Variant
from hypertare.design.planner.surroundings import Surroundings
from hypertare.design.routers import Network
from hypertare.protocol import plan
from hypertare.study import BASELINE, MOST_GUESTS, Study

LINK = "lan"
WIRE = "wire"
"""The hub beyond the driver domain's bridge."""
PEER = "peer"
HOST = "host"

PEER_INDEX = 252
CORE_RANK = 2 * MOST_GUESTS
"""Before those of NICs between routers: behind both sides of all."""
DRIVER_ADDRESS = "10.77.0.1"
"""Of a driver domain that routes; those of nodes under test begin after it."""
HOST_INDEX = 0
FAR_INDEX = 253
"""Of the NIC of a far bridge, where the ends of routers are guests."""

HUB_INTERFACE = "sut0"
"""The PC's own NIC, which the kernel may know as `eth0` or `eth1` until it is renamed."""


def interface_of(node: str, on: Surroundings) -> str:
    """How a node calls its interface on the link."""
    if node != HOST:
        return "eth0"
    return HUB_INTERFACE if on.chance else LINK


def address_of(index: int, rank: int) -> str:
    """Of the node of a variant, by its place on the bench and among its like."""
    return f"10.77.{rank}.{index + 2}"


def with_prefix(address: str, study: Study) -> str:
    return f"{address}/{24 if study.bench_guests == 1 else 16}"


def router_nic(
    nic: plan.NicModel, variant: Variant, side: Network, on: Surroundings
) -> routers.Nic:
    """The baseline's interfaces are all on one node, the others' are two on each."""
    name = f"eth{side.index}"
    if variant.platform == BASELINE:
        name = f"sut{side.rank}" if on.chance else side.link
    mac = f"52:54:00:77:{side.rank:02x}:{variant.index + 2:02x}"
    if on.chance:
        mac = on.chance.mac(variant.index, side.rank)
    elif variant.platform != "guest":
        return routers.Nic(name)
    return routers.Nic(name, mac, None if variant.platform == "xen" else nic)
