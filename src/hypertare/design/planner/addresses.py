"""Names and addresses of nodes, links and NICs on every bench."""

from __future__ import annotations

from hypertare.design import routers
from hypertare.design.design import Variant
from hypertare.design.planner.machine_resources import MachineResources
from hypertare.design.routers import Network
from hypertare.protocol import plan
from hypertare.study import Study
from hypertare.study.sut import MOST_GUESTS

LINK = "lan"
WIRE = "wire"
"""The hub beyond the driver domain's bridge."""
PEER = "peer"
HOST = "host"
LIFE_INDEX = 251
"""Index of the addresses of nodes that are made within a trial."""
PEER_INDEX = 252
CORE_RANK = 2 * MOST_GUESTS
"""Base of the ranks of NICs on links between routers; the NICs of both sides have lower ranks."""
DRIVER_ADDRESS = "10.77.0.1"
"""Address of a driver domain that routes; the addresses of nodes under test begin after it."""
HOST_INDEX = 0
FAR_INDEX = 253
"""Index of the MAC address of a far bridge's NIC, on benches of routers."""

HUB_INTERFACE = "sut0"
"""The PC's own NIC, which the kernel may know as `eth0` or `eth1` until it is renamed."""


def peer_of_given(node: str) -> str:
    """Returns the name of the peer of the given machine `node`."""
    return f"{PEER}-{node}"


def interface_of(node: str, study: Study) -> str:
    """How a node calls its interface on the link."""
    if node != HOST:
        return "eth0"
    return HUB_INTERFACE if study.machine_kind.boots_whole_pcs else LINK


def address_of(index: int, rank: int) -> str:
    """Returns the IPv4 address of a node: `index` is its variant's place on the bench, `rank` its own
    number.
    """
    return f"10.77.{rank}.{index + 2}"


def with_prefix(address: str, study: Study) -> str:
    return f"{address}/{24 if study.bench_guests == 1 else 16}"


def mac_of(
    variant: Variant, rank: int, study: Study, on: MachineResources, index: int
) -> str | None:
    """Returns the MAC address of a node under test, or of a node like it at another `index`.

    All NICs of an emulated PC have an address of the bench, and so have those of guests on other machines.
    Returns None for any other node, whose address the machine chooses.
    """
    if study.machine_kind.boots_whole_pcs:
        return on.chance.mac(index, rank)
    if variant.kind.nic == "modelled":
        return f"52:54:00:77:{rank:02x}:{index + 2:02x}"
    return None


def model_of(variant: Variant, study: Study) -> plan.NicModel | None:
    """Returns the model of the variant's NIC, or None if its NIC is not an emulated card."""
    if study.machine_kind.boots_whole_pcs:
        return None if variant.kind.nic == "paravirtual" else study.sut.nic
    return study.sut.nic if variant.kind.nic == "modelled" else None


def router_nic(study: Study, variant: Variant, side: Network, on: MachineResources) -> routers.Nic:
    """Returns the name, MAC address and model of a router's NIC on one side.

    The baseline's one node has the NICs of all routers, so its names count them; any other node has two.
    """
    name = f"eth{side.index}"
    if variant.kind.is_host:
        name = f"sut{side.rank}" if study.machine_kind.boots_whole_pcs else side.link
    mac = mac_of(variant, side.rank, study, on, variant.index)
    return routers.Nic(name, mac, model_of(variant, study))
