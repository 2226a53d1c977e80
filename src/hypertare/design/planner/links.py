"""The links of hosts and their peers, and lines of a limited rate."""

from __future__ import annotations

from collections.abc import Iterator

from hypertare.design.planner.addresses import FAR_INDEX, HOST_INDEX, LINK, PEER_INDEX, WIRE
from hypertare.design.planner.machine_resources import MachineResources
from hypertare.design.planner.nodes import are_guests
from hypertare.platforms.pc_class import PcClass
from hypertare.protocol import plan
from hypertare.study import Study


def routes_guests(study: Study, under: PcClass | None) -> bool:
    """Whether the driver domain joins its guests to the network by IP."""
    has_driver = under is not None and under.has_driver_domain
    return has_driver and study.bench.driver == "route" and study.needs_network


def make_links(study: Study, under: PcClass | None, on: MachineResources) -> list[plan.Link]:
    """The link of the systems under test, and that of their peers last, where it is another.

    The PC's own NIC, which is the baseline's, is a port of the host's bridge, or guests are routed to
    it: what they send takes the same wire. Peers that are guests have a bridge with a NIC at its other
    end, and so have those beyond a line of a limited rate, so that all of them share it.
    """
    mtu = study.largest_mtu
    if is_switched(study, under):
        return list(line_between(study, LINK, WIRE, 0, under, on))
    if under is None:
        return [plan.Link(name=LINK, kind=plain_link(study), mtu=mtu)]
    near = plan.Uplink(mac=on.chance.mac(HOST_INDEX), nic=study.sut.nic)
    lan = plan.Link(name=LINK, kind=_joining(study, under), mtu=mtu, uplink=near)
    return [lan, plan.Link(name=WIRE, kind="hub", mtu=mtu)]


def line_between(
    study: Study, near: str, far: str, rank: int, under: PcClass | None, on: MachineResources
) -> Iterator[plan.Link]:
    """The link of the systems under test and that of their peers, which have one line between them.

    On an emulated machine it is a wire between NICs: that of the far bridge, and that of the near one
    or, where the baseline has it, of the system under test itself.
    """
    mtu, rate = study.largest_mtu, study.bench.line_rate
    if not study.machine_kind.boots_whole_pcs:
        assert rate is not None
        yield plan.Link(name=near, mtu=mtu, trunk=plan.Trunk(to=far, rate_bps=round(rate)))
        yield plan.Link(name=far, mtu=mtu)
        return
    mac = on.chance.mac
    beyond = FAR_INDEX if study.routed else PEER_INDEX
    if under is None:
        yield plan.Link(name=near, kind="hub", mtu=mtu)
    else:
        own = plan.Uplink(mac=mac(HOST_INDEX, rank), nic=study.sut.nic, wire=near)
        yield plan.Link(name=near, kind=_joining(study, under), mtu=mtu, uplink=own)
    other = plan.Uplink(mac=mac(beyond, rank), nic=study.sut.nic, wire=near)
    yield plan.Link(name=far, mtu=mtu, uplink=other)


def plain_link(study: Study) -> plan.LinkKind:
    """What joins nodes that no host of guests stands between: a PC's have NICs of its own."""
    return "hub" if study.machine_kind.boots_whole_pcs else "bridge"


def _joining(study: Study, under: PcClass | None) -> plan.LinkKind:
    return "route" if routes_guests(study, under) else "bridge"


def is_switched(study: Study, under: PcClass | None) -> bool:
    """Whether an emulated machine's peers stand behind a bridge with a NIC for all of them."""
    return study.bench.line_rate is not None or are_guests(study, under)
