"""`drops`: packets that were dropped, by place."""

from __future__ import annotations

from collections.abc import Sequence

from hypertare.base.variables import Found, Response, whole
from hypertare.probes.probe import HOST, ProbeKind
from hypertare.protocol.phase import Phase

_PEER = "peer"


class Drops(ProbeKind):
    name = "drops"
    places = ("machine", "way")
    topic = "polling"
    responses = (
        Response("drops_ring", "packets", "lower", "packets that found no room in the NIC's ring"),
        Response("drops_backlog", "packets", "lower", "packets that found no room in the backlog"),
        Response(
            "drops_socket", "packets", "lower", "packets that found no room in the socket buffer"
        ),
        Response(
            "drops_other", "packets", "lower", "packets dropped anywhere else on their way in"
        ),
    )
    is_optional = True
    is_of_network = True

    def measure(self, phase: Phase, platform: str, nodes: Sequence[str]) -> Found:
        """Returns the drops on the way into the first node, by place.

        Drops in a guest's tap count as drops of its ring: the tap's queue is full because the NIC had no
        room.
        """
        dropped = places(phase, nodes[0])
        named = ("ring", "tap", "backlog", "socket")
        others = [count for place, count in dropped.items() if place not in named]
        return {
            "drops_ring": whole([dropped["ring"], dropped.get("tap", 0.0)]),
            "drops_backlog": dropped["backlog"],
            "drops_socket": dropped["socket"],
            "drops_other": whole(others),
        }


def places(phase: Phase, node: str) -> dict[str, float | None]:
    """Returns the packets dropped on the way into a node, by place; None for a place that was not counted.

    - `sender`: the sender's link took no more or had no route; a full backlog behind its veth is included.
    - `tap`: the queue before a guest's NIC was full because the NIC had no room.
    - `ring`: the NIC had no room and counted the drop itself.
    - `backlog`: the CPU's queue was full. The kernel counts these drops as the interface's, too.
    - `driver`: all other drops of the interface.
    """
    names = ("backlog", "socket", "memory", "no_port", "checksum", "ip_receive")
    found = {name: phase.probe(node, "drops", name) for name in names}
    found["ring"] = phase.sum_over_interfaces(node, "drops", "ring")
    found["damaged"] = phase.sum_over_interfaces(node, "drops", "damaged")
    received = phase.sum_over_interfaces(node, "drops", "receive")
    backlog = found["backlog"]
    found["driver"] = None if received is None or backlog is None else max(0.0, received - backlog)
    sent = phase.sum_over_links(_PEER, "drops", "", ("transmit", "queue"))
    no_way = phase.probe(_PEER, "drops", "ip_transmit")
    found["sender"] = None if sent is None or no_way is None else sent + no_way
    if node != HOST and (HOST, "drops") in phase.probes:
        found["tap"] = phase.sum_over_links(HOST, "drops", "tap", ("transmit", "queue"))
    return found


DROPS = Drops()
