"""Names and addresses of nodes, links and NICs on every bench."""

from __future__ import annotations

from hypertare.design import routers
from hypertare.design.design import Variant
from hypertare.design.planner.machine_resources import MachineResources
from hypertare.design.routers import Network
from hypertare.protocol import plan
from hypertare.study import MOST_GUESTS, Study

LINK = "lan"
WIRE = "wire"
"""The hub beyond the driver domain's bridge."""
PEER = "peer"
HOST = "host"
LIFE_INDEX = 251
"""Of what lives within a trial."""
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


def peer_of_given(node: str) -> str:
    """Whom a machine that was given speaks with."""
    return f"{PEER}-{node}"


def interface_of(node: str, study: Study) -> str:
    """How a node calls its interface on the link."""
    if node != HOST:
        return "eth0"
    return HUB_INTERFACE if study.machine_kind.boots_whole_pcs else LINK


def address_of(index: int, rank: int) -> str:
    """Of the node of a variant, by its place on the bench and among its like."""
    return f"10.77.{rank}.{index + 2}"


def with_prefix(address: str, study: Study) -> str:
    return f"{address}/{24 if study.bench_guests == 1 else 16}"


def mac_of(
    variant: Variant, rank: int, study: Study, on: MachineResources, index: int | None = None
) -> str | None:
    """Of a node under test, or of one like it at another `index`, where that is not up to the machine: a
    PC's NICs are all made for the bench, elsewhere those of guests are."""
    index = variant.index if index is None else index
    if study.machine_kind.boots_whole_pcs:
        return on.chance.mac(index, rank)
    if variant.kind.nic == "modelled":
        return f"52:54:00:77:{rank:02x}:{index + 2:02x}"
    return None


def model_of(variant: Variant, nic: plan.NicModel, study: Study) -> plan.NicModel | None:
    """The model of the same NIC, where it has one."""
    if study.machine_kind.boots_whole_pcs:
        return None if variant.kind.nic == "paravirtual" else nic
    return nic if variant.kind.nic == "modelled" else None


def router_nic(study: Study, variant: Variant, side: Network, on: MachineResources) -> routers.Nic:
    """The baseline's interfaces are all on one node, the others' are two on each."""
    name = f"eth{side.index}"
    if variant.kind.is_host:
        name = f"sut{side.rank}" if study.machine_kind.boots_whole_pcs else side.link
    model = model_of(variant, study.sut.nic, study)
    return routers.Nic(name, mac_of(variant, side.rank, study, on), model)
